"""Feature extractors by the name a verifier gives."""

from __future__ import annotations

from pruner.analyzer.device import Device
from pruner.errors import ConfigError
from pruner.features.batch import FeatureExtractor
from pruner.features.statement import StatementFeatures
from pruner.features.symbols import SymbolFeatures

# Checkpoints and verifiers name their features; a feature of your own is passed as an instance instead.
EXTRACTORS: dict[str, type[SymbolFeatures] | type[StatementFeatures]] = {
    SymbolFeatures.name: SymbolFeatures,
    StatementFeatures.name: StatementFeatures,
}


def make_extractor(name: str, device: Device) -> FeatureExtractor:
    """The extractor of that name for the device. Raises ConfigError with the list of names."""
    if name not in EXTRACTORS:
        raise ConfigError(f"unknown feature {name}: accepted are {', '.join(sorted(EXTRACTORS))}")
    return EXTRACTORS[name](device=device)
