"""Conformance suites for components of one's own, as pytest classes, and a dummy device.

    from pruner.testing import VerifierSuite

    class TestMine(VerifierSuite):
        @pytest.fixture
        def make(self):
            return MyVerifier

The suites need pytest; nothing else of the package does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pruner.errors import ConfigError

if TYPE_CHECKING:
    from pruner.testing.adaptation_suite import AdaptationSuite as AdaptationSuite
    from pruner.testing.draft_suite import DraftSuite as DraftSuite
    from pruner.testing.feature_suite import FeatureSuite as FeatureSuite
    from pruner.testing.measurer_suite import MeasurerSuite as MeasurerSuite
    from pruner.testing.strategy_suite import StrategySuite as StrategySuite
    from pruner.testing.verifier_suite import VerifierSuite as VerifierSuite

_SUITES = {
    "AdaptationSuite": "adaptation_suite",
    "DraftSuite": "draft_suite",
    "FeatureSuite": "feature_suite",
    "MeasurerSuite": "measurer_suite",
    "StrategySuite": "strategy_suite",
    "VerifierSuite": "verifier_suite",
}


def __getattr__(name: str) -> Any:
    if name not in _SUITES:
        raise AttributeError(f"pruner.testing has no {name}; its suites are {', '.join(_SUITES)}")
    try:
        import pytest
    except ModuleNotFoundError as error:
        raise ConfigError(f"pruner.testing.{name} is a pytest class: pip install pytest") from error
    module = f"pruner.testing.{_SUITES[name]}"
    pytest.register_assert_rewrite(module)  # an installed package's asserts say what they compared, too
    return getattr(import_module(module), name)
