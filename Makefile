# Every target sets up what it needs: the virtual environment is made once and made again only when the
# requirements change. PYTHON chooses the interpreter (3.10 to 3.12).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: tune test test-slow lint setup clean

tune: setup
	$(BIN)/pruner tune workload=examples/conv_bias_relu.py:conv_bias_relu trials=60

test: setup
	$(BIN)/python -m pytest

test-slow: setup
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(READY)

$(READY): setup.cfg pyproject.toml constraints.txt
	@set -e; \
	supported='import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 13))'; \
	for python in '$(PYTHON)' python3.12 python3.11 python3.10; do \
	  if "$$python" -c "$$supported" 2>/dev/null; then found="$$python"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Python 3.10, 3.11 or 3.12 is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Install one of them, or name it: make PYTHON=/path/to/python3.11 ..."; exit 1; \
	fi; \
	if [ "$$found" != '$(PYTHON)' ]; then echo "'$(PYTHON)' is not Python 3.10 to 3.12: using $$found."; fi; \
	if ! $(BIN)/python -c "$$supported" 2>/dev/null; then rm -rf $(VENV); "$$found" -m venv $(VENV); fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
