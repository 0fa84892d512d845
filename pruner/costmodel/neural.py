"""The verifiers that are networks: Pruner's, TenSet's and TLP's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# First, because it says what to do where PyTorch is missing.
from pruner.costmodel.network_verifier import NeuralVerifier
from pruner.costmodel.networks import TLP, Network, PaCM, TenSetMLP
from pruner.errors import ConfigError


class PaCMVerifier(NeuralVerifier):
    """Pruner's pattern-aware cost model, PaCM (section 5).

    Args:
        statement, dataflow: its branches; one of them at least.
        form: `paper`, with the write-back among the movements and TVM's numbers of a statement, as far as the
            decisions tell them (`statement_fast`); `reference`, the same with all 164 of TVM, which takes the
            programs of all candidates (`statement`); `code`, with the inputs of the released weights, and
            BatchNorm with the statistics of the candidates at hand: the released code never leaves training.
        settings: of NeuralVerifier.
    """

    model = "pacm"
    sequence = "dataflow"

    def __init__(
        self,
        *,
        statement: bool = True,
        dataflow: bool = True,
        form: str = "paper",
        **settings: Any,
    ) -> None:
        _check_form(form, _FORMS)
        on = {"statement": statement, "dataflow": dataflow}
        self._branches = {branch: name for branch, name in _FORMS[form].items() if on[branch]}
        if not self._branches:
            raise ConfigError(
                "verifier.statement and verifier.dataflow are both off: PaCM needs one of its branches."
            )
        self.batch_statistics = form == "code"
        super().__init__(**settings)

    def branches(self) -> Mapping[str, str]:
        return self._branches

    def make(self, widths: Mapping[str, int]) -> Network:
        return PaCM(widths)


class TenSetMLPVerifier(NeuralVerifier):
    """TenSet's cost model, an MLP over statements.

    Args:
        form: `paper` or `reference`, the statements of PaCMVerifier's.
        settings: of NeuralVerifier.
    """

    model = "tenset_mlp"

    def __init__(self, *, form: str = "paper", **settings: Any) -> None:
        _check_form(form, _OF_ANY_NETWORK)
        self._statement = _FORMS[form]["statement"]
        super().__init__(**settings)

    def branches(self) -> Mapping[str, str]:
        return {"statement": self._statement}

    def make(self, widths: Mapping[str, int]) -> Network:
        return TenSetMLP(widths)


class TLPVerifier(NeuralVerifier):
    """TLP's cost model, which reads the schedule and not the program."""

    model = "tlp"
    sequence = "primitives"

    def branches(self) -> Mapping[str, str]:
        return {"primitives": "primitives"}

    def make(self, widths: Mapping[str, int]) -> Network:
        return TLP(widths)


_FORMS = {
    "paper": {"statement": "statement_fast", "dataflow": "dataflow"},
    "reference": {"statement": "statement", "dataflow": "dataflow"},
    "code": {"statement": "statement_tagged", "dataflow": "dataflow_code"},
}
# The released weights are PaCM's.
_OF_ANY_NETWORK = ("paper", "reference")


def _check_form(form: str, accepted: Iterable[str]) -> None:
    if form not in accepted:
        raise ConfigError(f"verifier.form={form} is not accepted: give {' or '.join(accepted)}.")
