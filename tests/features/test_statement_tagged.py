"""The tags of a task: the release's nine words, looked for in a text of today's module."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, topi
from tvm.ir import IRModule
from tvm.s_tir import Schedule

from pruner.errors import ConfigError
from pruner.features.statement import StatementFeatures
from pruner.features.statement_tagged import TAGS, TaggedStatementFeatures, compute_text, workload_tags
from pruner.search.candidate import Candidate
from pruner.workload import make_task
from tests.analyzer import analyzer_util


def module(*tensors: te.Tensor) -> IRModule:
    return make_task(te.create_prim_func([*tensors]), analyzer_util.TARGET).mod


def tags(mod: IRModule) -> set[str]:
    values = workload_tags(mod)
    assert len(values) == 10
    assert values[9] == 0
    return {tag for tag, value in zip(TAGS, values, strict=False) if value}


def test_a_batched_product_by_hand() -> None:
    x, y = te.placeholder((4, 8, 16), name="x"), te.placeholder((4, 16, 8), name="y")
    k = te.reduce_axis((0, 16), name="k")
    product = te.compute((4, 8, 8), lambda b, i, j: te.sum(x[b, i, k] * y[b, k, j], axis=k), name="compute")
    mod = module(x, y, product)
    assert "compute(b, i, j) = " in compute_text(mod)
    assert tags(mod) == {"tag_batch_matmul"}


def test_words_of_operators() -> None:
    data, kernel = te.placeholder((1, 8, 10, 10), name="data"), te.placeholder((8, 1, 3, 3), name="kernel")
    relu = topi.nn.relu(topi.nn.depthwise_conv2d_nchw(data, kernel, 1, 0, 1))
    assert tags(module(data, kernel, relu)) >= {"tag_max", "tag_depthwise"}
    x = te.placeholder((8, 8), name="x")
    assert tags(module(x, topi.nn.softmax(x))) == {"tag_max", "tag_softmax"}
    y = te.placeholder((8, 8), name="y")
    assert tags(module(x, y, topi.add(x, y))) == {"tag_add"}
    assert tags(module(x, y, topi.minimum(x, y))) == {"tag_min"}
    # As in the release, a word is found inside another.
    assert tags(analyzer_util.space("CBR/0").task.mod) == {"tag_max", "tag_add", "tag_conv2d_output"}


def test_what_a_reduction_begins_with_is_no_word() -> None:
    x = te.placeholder((8, 8), name="x")
    k = te.reduce_axis((0, 8), name="k")
    low = te.compute((8,), lambda i: te.max(x[i, k], axis=k), name="low")
    text = compute_text(module(x, low))
    assert text == "low(i) = T.max(low[v_i], x[v_i, v_k])"


def test_tags_stand_behind_the_statement_features() -> None:
    extractor = TaggedStatementFeatures(device=analyzer_util.DEVICE)
    plain = StatementFeatures(device=analyzer_util.DEVICE)
    mixed = [*analyzer_util.sample("SFM/0", 3)][:2] + [*analyzer_util.sample("GMM/0", 3)][:2]
    tagged, untagged = extractor.extract(mixed), plain.extract(mixed)
    assert (tagged.name, tagged.values.shape[1], len(extractor.columns)) == ("statement_tagged", 174, 174)
    np.testing.assert_array_equal(tagged.offsets, untagged.offsets)
    np.testing.assert_array_equal(tagged.values[:, :164], untagged.values)
    softmax = extractor.columns.index("tag_softmax")
    np.testing.assert_array_equal(
        tagged.values[:, softmax], np.arange(len(tagged.values)) < tagged.offsets[2]
    )
    assert (tagged.values[:, 173] == 0).all()
    assert extractor.extract([]).values.shape == (0, 174)
    assert "'softmax'" in extractor.explain("tag_softmax")


def test_a_candidate_that_does_not_tell_its_task_is_refused() -> None:
    [row] = analyzer_util.sample("GMM/0", 1)

    class Foreign(Candidate):
        key = b""
        decided = row.decided

        def materialise(self) -> Schedule:
            return row.materialise()

    with pytest.raises(ConfigError, match="Foreign has no `task`"):
        TaggedStatementFeatures(device=analyzer_util.DEVICE).extract([Foreign()])
