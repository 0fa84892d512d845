"""Components with one fault each, run against the suites by test_suites.py."""

import itertools
import os

import numpy as np
import pytest

from pruner.adapt.rule import AdaptationRule, Scratch
from pruner.analyzer.draft import NoDraft
from pruner.costmodel.verifier import check_layout
from pruner.costmodel.xgb import XGBVerifier
from pruner.features.symbols import SymbolFeatures
from pruner.search.random import RandomSearch
from pruner.testing import (
    AdaptationSuite,
    DraftSuite,
    FeatureSuite,
    MeasurerSuite,
    StrategySuite,
    VerifierSuite,
)
from pruner.testing.dummy import DummyMeasurer

FAULTS = {}


def fault(suite, *fails):
    """A test class for a faulty component; `fails`: the tests that must find it out."""

    def enter(component):
        name = f"Test{component.__name__}"
        make = pytest.fixture(lambda self: component)
        globals()[name] = type(name, (suite,), {"make": make, "__module__": __name__})
        FAULTS[name] = {f"test_{one}" for one in fails}
        return component

    return enter


@fault(VerifierSuite, "higher_is_better", "failed_records_rank_low")
class UpsideDown(XGBVerifier):
    def predict(self, features):
        return -super().predict(features)


@fault(VerifierSuite, "one_finite_number_per_candidate")
class Nan(XGBVerifier):
    def predict(self, features):
        return super().predict(features) * np.nan


@fault(VerifierSuite, "no_candidate")
class NotEmpty(XGBVerifier):
    def predict(self, features):
        scores = super().predict(features)
        return scores - scores.max()


@fault(VerifierSuite, "one_candidate_scores_as_in_company")
class Relative(XGBVerifier):
    def predict(self, features):
        scores = super().predict(features)
        return scores - scores.mean() if len(scores) else scores


@fault(VerifierSuite, "another_process_learns_the_same")
class Hashed(XGBVerifier):
    def predict(self, features):
        return super().predict(features) + hash("a") % 1000


@fault(VerifierSuite, "a_saved_one_scores_as_before", "an_untrained_one_can_be_saved")
class Pickled(XGBVerifier):
    def state_dict(self):
        return {**super().state_dict(), "self": self}


@fault(VerifierSuite, "the_state_of_another_model_is_refused")
class Credulous(XGBVerifier):
    def load_state_dict(self, state):
        if "trees" in state:
            super().load_state_dict({**state, "model": "xgb"})


@fault(VerifierSuite, "other_features_are_refused")
class Blind(XGBVerifier):
    def predict(self, features):
        self._seen = [(b.name, b.version, b.values.shape[1]) for b in features.values()]
        return super().predict(features)


@fault(VerifierSuite, "fit_starts_from_scratch")
class Remembers(XGBVerifier):
    times = 0.0

    def fit(self, training_set):
        super().fit(training_set)
        self.times += 1

    def predict(self, features):
        return super().predict(features) + self.times


@fault(VerifierSuite, "what_it_is_given_is_left_as_it_is")
class Scribbles(XGBVerifier):
    def fit(self, training_set):
        super().fit(training_set)
        training_set.labels[:] += 1


@fault(VerifierSuite, "fit_makes_it_fitted")
class Unfitted(XGBVerifier):
    fitted = False


@fault(VerifierSuite, "records_that_teach_nothing")
class Divides(XGBVerifier):
    def fit(self, training_set):
        if training_set.labels.max() == 0:
            raise ZeroDivisionError
        super().fit(training_set)


@fault(VerifierSuite, "refine_forgets_nothing_where_nothing_can_be_learnt")
class StartsAgain(XGBVerifier):
    def refine(self, training_set, *, epochs=None):
        self.fit(training_set)


@fault(VerifierSuite, "refine_learns_further", "refine_of_an_unfitted_one_is_a_fit")
class RefinesNothing(XGBVerifier):
    def refine(self, training_set, *, epochs=None):
        check_layout(self._seen or [["symbols", 0, 0]], training_set.features)


@fault(DraftSuite, "a_score_does_not_depend_on_the_company", "another_process_scores_the_same")
class Drunk(NoDraft):
    def score(self, population):
        return np.random.default_rng().random(len(population))


@fault(DraftSuite, "some_row_fits_the_device")
class Hopeless(NoDraft):
    def score(self, population):
        return np.full(len(population), np.inf)


@fault(DraftSuite, "rows_are_left_as_they_are")
class Sorts(NoDraft):
    def score(self, population):
        population.decisions.sort(axis=1)
        return super().score(population)


@fault(FeatureSuite, "numbers_are_numbers")
class Missing(SymbolFeatures):
    def extract(self, candidates):
        batch = super().extract(candidates)
        batch.values[:, 1:2] = np.nan
        return batch


@fault(FeatureSuite, "a_batch_is_what_it_says")
class Mislabelled(SymbolFeatures):
    columns = SymbolFeatures.columns[:-1]

    def extract(self, candidates):
        return SymbolFeatures(device=self.device).extract(candidates)


@fault(FeatureSuite, "one_candidate_looks_as_in_company")
class Normalised(SymbolFeatures):
    def extract(self, candidates):
        batch = super().extract(candidates)
        batch.values[:] -= batch.values.mean(axis=0, keepdims=True) if len(batch) else 0
        return batch


@fault(StrategySuite, "the_same_seed_proposes_the_same")
class Unseeded(RandomSearch):
    def start(self, space, *, rng, **parts):
        return super().start(space, rng=np.random.default_rng(os.urandom(8)[0]), **parts)


@fault(StrategySuite, "rounds_of_new_candidates", "ends_when_the_space_is_exhausted")
class Again(RandomSearch):
    def start(self, space, **parts):
        session = super().start(space, **parts)
        first = session.propose(8)
        again = itertools.cycle(first)
        session.propose = lambda n: list(itertools.islice(again, n))
        return session


@fault(StrategySuite, "a_pool_is_all_there_is")
class IgnoresPool(RandomSearch):
    def start(self, space, *, pool, **parts):
        return super().start(space, pool=None, **parts)


@fault(StrategySuite, "sessions_are_apart")
class OneSession(RandomSearch):
    def start(self, space, **parts):
        self.session = getattr(self, "session", None) or super().start(space, **parts)
        return self.session


@fault(AdaptationSuite, "a_verifier_changes_through_its_contract_alone")
class Meddles(AdaptationRule):
    def update(self, verifier, training_set):
        verifier.fitted_on = len(training_set)


@fault(AdaptationSuite, "records_that_teach_nothing")
class NeedsTwo(Scratch):
    def update(self, verifier, training_set):
        assert len(training_set) > 1
        super().update(verifier, training_set)


@fault(AdaptationSuite, "records_are_left_as_they_are")
class Reorders(Scratch):
    def update(self, verifier, training_set):
        training_set.labels.sort()
        super().update(verifier, training_set)


@fault(AdaptationSuite, "prepare_gives_a_verifier")
class PreparesNothing(Scratch):
    def prepare(self, verifier):
        return None


@fault(AdaptationSuite, "a_fitted_verifier_stays_fitted")
class Forgets(Scratch):
    def prepare(self, verifier):
        return XGBVerifier()


@fault(AdaptationSuite, "a_rule_that_never_learns_changes_nothing")
class Learns(Scratch):
    learns = False


def dummy(task, threads):
    return DummyMeasurer(latency=lambda candidate: candidate.materialise() and 1e-3)


@fault(MeasurerSuite, "a_failure_is_a_measurement")
def raises(task, threads):
    return dummy(task, threads)


@fault(MeasurerSuite, "one_measurement_per_candidate_in_order")
def reverses(task, threads):
    measurer = dummy(task, threads)
    measure = measurer.measure
    measurer.measure = lambda candidates: measure(candidates)[::-1]
    return measurer
