"""What every verifier must do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from pruner.analyzer.device import Device
from pruner.costmodel.checkpoint import load_checkpoint, save_checkpoint
from pruner.costmodel.guard import verifier_scores
from pruner.costmodel.verifier import TrainingSet, Verifier
from pruner.errors import PrunerError
from pruner.features.batch import FeatureBatch
from pruner.testing import tiny
from pruner.testing.suite import Suite, refused, unchanged

Make = Callable[[], Verifier]
Features = dict[str, FeatureBatch]
# Rank correlation with the labels it was fitted on that every model with eyes reaches.
LEARNT = 0.3


def _scores(make: Make, device: Device) -> NDArray[np.float64]:
    verifier = tiny.taught(make(), device)
    return _predicted(verifier, tiny.unseen(device, verifier.features))


def _through_a_file(verifier: Verifier, folder: Path) -> dict[str, Any]:
    """What a checkpoint of the verifier gives back."""
    save_checkpoint(folder / "saved.safetensors", verifier.state_dict(), {})
    return load_checkpoint(folder / "saved.safetensors")[0]


def _predicted(verifier: Verifier, features: Features) -> NDArray[np.float64]:
    return verifier_scores(verifier.predict(features), len(next(iter(features.values()))), verifier)


class VerifierSuite(Suite):
    """`make()` gives an unfitted Verifier. `learns`: false for one that ranks without looking, such as a null
    model; what is expected of a model that has learnt is then not asked. `pretrained`: true for one that
    knows something before it is fitted."""

    learns: ClassVar[bool] = True
    pretrained: ClassVar[bool] = False
    _fitted: ClassVar[dict[tuple[type, str], Verifier]] = {}

    @pytest.fixture
    def verifier(self, make: Make) -> Verifier:
        """A new one."""
        return make()

    @pytest.fixture
    def fitted(self, verifier: Verifier, device: Device, request: pytest.FixtureRequest) -> Verifier:
        """One that has learnt; made once for all tests that only ask it."""
        key = type(self), request.node.name.partition("[")[2]
        if key not in self._fitted:
            self._fitted[key] = tiny.taught(verifier, device)
        return self._fitted[key]

    @pytest.fixture
    def records(self, verifier: Verifier, device: Device) -> TrainingSet:
        return tiny.training_set(device, verifier.features)

    @pytest.fixture
    def unseen(self, verifier: Verifier, device: Device) -> Features:
        return tiny.unseen(device, verifier.features)

    def test_names_its_features(self, verifier: Verifier) -> None:
        assert isinstance(verifier, Verifier), "a verifier derives from pruner.costmodel.verifier.Verifier"
        assert isinstance(verifier.features, tuple), "features is a tuple: features = ('symbols',)"
        assert verifier.features, "without features it would not even know how many candidates there are"

    def test_untrained(self, verifier: Verifier, unseen: Features) -> None:
        assert verifier.fitted in (True, False)
        if self.learns and not self.pretrained:
            assert not verifier.fitted, "the draft's order stands in for a verifier until it is fitted"
        try:
            _predicted(verifier, unseen)
        except PrunerError:
            assert not verifier.fitted, "it says that it is fitted and refuses to predict"

    def test_fit_makes_it_fitted(self, fitted: Verifier) -> None:
        assert fitted.fitted, "set self.fitted = True in `fit`, else the verifier is never asked"

    def test_one_finite_number_per_candidate(self, fitted: Verifier, unseen: Features) -> None:
        scores = _predicted(fitted, unseen)
        assert scores.shape == (20,)

    def test_higher_is_better(self, fitted: Verifier, records: TrainingSet) -> None:
        if not self.learns:
            pytest.skip("it does not learn")
        scores = _predicted(fitted, dict(records.features))
        for task in np.unique(records.group):
            mine = records.group == task
            correlation = float(spearmanr(scores[mine], records.labels[mine]).statistic)
            assert correlation > LEARNT, (
                f"its scores of {mine.sum()} records that it was fitted on correlate {correlation:.2f} with "
                "their labels (best latency / latency): a higher score must mean a faster program"
            )

    def test_failed_records_rank_low(self, verifier: Verifier, device: Device) -> None:
        records = tiny.training_set(device, verifier.features, failing=True)
        verifier.fit(records)
        scores = _predicted(verifier, dict(records.features))
        if self.learns:
            failed = records.labels == 0
            assert scores[failed].mean() < scores[~failed].mean(), "failures (label 0) rank above what ran"

    def test_records_that_teach_nothing(self, make: Make, records: TrainingSet, unseen: Features) -> None:
        for what, odd in tiny.odd_training_sets(records).items():
            verifier = make()
            verifier.fit(odd)
            if verifier.fitted:
                scores = _predicted(verifier, unseen)
                assert np.isfinite(scores).all(), f"fitted on {what} it predicts {scores}"

    def test_no_candidate(self, fitted: Verifier, unseen: Features) -> None:
        none = {name: batch.take(np.zeros(0, dtype=np.int64)) for name, batch in unseen.items()}
        assert _predicted(fitted, none).shape == (0,)

    def test_one_candidate_scores_as_in_company(self, fitted: Verifier, unseen: Features) -> None:
        one = {name: batch.take(np.array([3])) for name, batch in unseen.items()}
        alone = _predicted(fitted, one)
        if self.learns:
            np.testing.assert_allclose(alone, _predicted(fitted, unseen)[[3]], rtol=1e-4, atol=1e-5)

    def test_equal_candidates_score_the_same(self, fitted: Verifier, unseen: Features) -> None:
        same = {name: batch.take(np.full(6, 2)) for name, batch in unseen.items()}
        scores = _predicted(fitted, same)
        if self.learns:
            np.testing.assert_allclose(scores, scores[0], rtol=1e-4, atol=1e-5)

    def test_what_it_is_given_is_left_as_it_is(
        self, verifier: Verifier, records: TrainingSet, unseen: Features
    ) -> None:
        same = unchanged(records, *unseen.values())
        verifier.fit(records)
        _predicted(verifier, unseen)
        assert same(), "fit or predict changes the arrays it is given"

    def test_fit_starts_from_scratch(self, make: Make, records: TrainingSet, unseen: Features) -> None:
        if not self.learns:
            pytest.skip("it does not learn")
        backwards = replace(records, labels=1.0 - records.labels)
        twice, once = make(), make()
        for labels in (backwards, records):
            twice.fit(labels)
        once.fit(records)
        np.testing.assert_allclose(_predicted(twice, unseen), _predicted(once, unseen), rtol=1e-4, atol=1e-5)

    def test_refine_learns_further(self, verifier: Verifier, device: Device, records: TrainingSet) -> None:
        self._refines(verifier)
        tiny.taught(verifier, device)
        first = tiny.selected(records, np.flatnonzero(records.group == records.group[0]))
        backwards = replace(first, labels=1.0 - first.labels)
        before = spearmanr(_predicted(verifier, dict(first.features)), backwards.labels).statistic
        same = unchanged(backwards)
        verifier.refine(backwards)
        assert same(), "refine changes the arrays it is given"
        after = spearmanr(_predicted(verifier, dict(first.features)), backwards.labels).statistic
        assert after > before, (
            f"refined on records that say the opposite, its scores correlate {after:.2f} with them, and did "
            f"{before:.2f} before: `refine` learns what it is given"
        )

    def test_refine_of_an_unfitted_one_is_a_fit(
        self, make: Make, fitted: Verifier, records: TrainingSet, unseen: Features
    ) -> None:
        verifier = make()
        self._refines(verifier)
        verifier.refine(records)
        np.testing.assert_array_equal(_predicted(verifier, unseen), _predicted(fitted, unseen))

    def test_refine_forgets_nothing_where_nothing_can_be_learnt(
        self, make: Make, fitted: Verifier, records: TrainingSet, unseen: Features
    ) -> None:
        verifier = make()
        self._refines(verifier)
        verifier.load_state_dict(fitted.state_dict())
        for what, odd in tiny.odd_training_sets(records).items():
            verifier.refine(odd)
            after = _predicted(verifier, unseen)
            assert (after == _predicted(fitted, unseen)).all(), f"refining on {what} changes its scores"
        name = verifier.features[0]
        batch = replace(records.features[name], version=records.features[name].version + 1)
        with refused(f"refining on another version of {name} is no ConfigError: see check_layout"):
            verifier.refine(replace(records, features={**records.features, name: batch}))

    def _refines(self, verifier: Verifier) -> None:
        if type(verifier).refine is Verifier.refine:
            pytest.skip("it cannot be fine-tuned: it has no `refine`")

    def test_a_saved_one_scores_as_before(
        self, make: Make, fitted: Verifier, unseen: Features, tmp_path: Path
    ) -> None:
        loaded = make()
        loaded.load_state_dict(_through_a_file(fitted, tmp_path))
        assert loaded.fitted, "a loaded verifier is fitted when the saved one was"
        np.testing.assert_array_equal(_predicted(loaded, unseen), _predicted(fitted, unseen))

    def test_an_untrained_one_can_be_saved(self, make: Make, fitted: Verifier, tmp_path: Path) -> None:
        state, loaded = _through_a_file(make(), tmp_path), make()
        loaded.load_state_dict(state)
        assert loaded.fitted == make().fitted
        loaded.load_state_dict(_through_a_file(fitted, tmp_path))
        loaded.load_state_dict(state)
        assert loaded.fitted == make().fitted, "loading an unfitted state leaves it fitted"

    def test_the_state_of_another_model_is_refused(self, make: Make, fitted: Verifier) -> None:
        states: list[dict[str, Any]] = [{}, {**fitted.state_dict(), "model": "another"}]
        for state in states:
            with refused(f"a state whose model is {state.get('model')!r} is loaded: see check_model"):
                make().load_state_dict(state)

    def test_other_features_are_refused(self, fitted: Verifier, unseen: Features) -> None:
        if not self.learns:
            pytest.skip("it does not look at features")
        for name, batch in unseen.items():
            wider = np.pad(batch.values, ((0, 0), (0, 1)))
            for what, other in (
                ("version", replace(batch, version=batch.version + 1)),
                ("width", replace(batch, values=wider)),
            ):
                with refused(
                    f"{name} of another {what} than it was fitted on is no ConfigError: see check_layout"
                ):
                    fitted.predict({**unseen, name: other})

    def test_another_process_learns_the_same(self, make: Make, device: Device) -> None:
        there = self.elsewhere(_scores, make, device)
        np.testing.assert_array_equal(there, _scores(make, device))
