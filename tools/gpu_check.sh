#!/usr/bin/env bash
# Checks the draft on a GPU machine that has neither TVM nor a network: Python, NumPy and CuPy are enough there.
#
#   tools/gpu_check.sh prepare   here: drafts candidates of a few operators and compiles them with nvcc into
#                                the folder gpu_check/ (ignored by git, under 50 MB)
#   tools/gpu_check.sh run       there: checks every program against NumPy and times it, five minutes;
#                                writes gpu_check/records.jsonl line by line, and goes on where it was stopped
#   tools/gpu_check.sh import    here: reads gpu_check/records.jsonl as a data set and sums it up
#
# PYTHON names another interpreter; docs/gpu_check.md says more.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/gpu_check

usage() {
  cat <<'TEXT'
usage: tools/gpu_check.sh COMMAND [options]

  prepare   draft and compile, where the project is installed
              [--device h200] [--arch sm_90] [--workloads GMM/2 SFM/2 ...] [--candidates 32] [--seed 0]
  run       check and time, on the GPU machine
              [--minutes 5] [--limit 10] [--out DIR]
  import    read what ran, where the project is installed
              [--records FILE] [--save FILE]
TEXT
}

fail() {
  printf 'gpu_check: %s\n' "$1" >&2
  exit 2
}

command=${1:-}
[ $# -gt 0 ] && shift
case $command in
  prepare | import)
    python=${PYTHON:-$root/.venv/bin/python}
    [ -x "$(command -v "$python")" ] || python=python3
    PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} "$python" -c 'import pruner' 2>/dev/null ||
      fail "$python does not have this project: run \`make setup\`, or name another interpreter as PYTHON."
    PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m tools.gpu_check "$command" "$@"
    ;;
  run)
    python=${PYTHON:-python3}
    [ -x "$(command -v "$python")" ] || fail "there is no $python: name an interpreter with CuPy as PYTHON."
    [ -d "$folder/gpu_run" ] ||
      fail "$folder is missing: run \`tools/gpu_check.sh prepare\` where the project is installed, and bring it."
    PYTHONPATH=$folder${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m gpu_run "$folder" "$@"
    ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
