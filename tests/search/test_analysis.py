"""Vectorised replay against TVM: locations, trees, accesses and legality of random candidates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nest_util import CUDA, analyses, check, computed, make_sketch, random_rows, workload
from odd_programs import row_argmax, swish
from tvm import te, topi
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.target import Target

from pruner.search.analysis import SketchAnalysis, UnsupportedSketch
from pruner.search.sketch import LocationGene

FAMILIES = ["C1D", "C2D", "C3D", "DEP", "DIL", "GRP", "GMM", "T2D", "CBR", "TBG", "NRM", "SFM"]


def layer_norm() -> tuple[te.Tensor, ...]:
    x = te.placeholder((8, 96), name="x")
    scale, shift = te.placeholder((96,), name="scale"), te.placeholder((96,), name="shift")
    return x, scale, shift, topi.nn.layer_norm(x, scale, shift, [1])


def bias_relu(before: bool) -> tuple[te.Tensor, ...]:
    x, w = te.placeholder((1, 12, 10, 10), name="x"), te.placeholder((9, 12, 3, 3), name="w")
    b = te.placeholder((9, 1, 1), name="b")
    if before:
        return x, w, topi.nn.conv2d_nchw(topi.nn.relu(x), w, 2, 1, 1)
    return x, w, b, topi.nn.relu(topi.add(topi.nn.conv2d_nchw(x, w, 1, 1, 1), b))


def two_layers() -> tuple[te.Tensor, ...]:
    x, w, v = (
        te.placeholder(shape, name=n) for n, shape in (("x", (37, 24)), ("w", (16, 24)), ("v", (10, 16)))
    )
    k, m = te.reduce_axis((0, 24), name="k"), te.reduce_axis((0, 16), name="m")
    hidden = te.compute((37, 16), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="hidden")
    active = te.compute((37, 16), lambda i, j: te.max(hidden[i, j], 0.0), name="active")
    return x, w, v, te.compute((37, 10), lambda i, j: te.sum(active[i, m] * v[j, m], axis=m), name="y")


def upsampled() -> tuple[te.Tensor, ...]:
    x, w = te.placeholder((8, 6, 6), name="x"), te.placeholder((8, 5), name="w")
    k = te.reduce_axis((0, 8), name="k")
    active = topi.nn.relu(x)
    bigger = te.compute((8, 12, 12), lambda c, i, j: active[c, i // 2, j // 2], name="bigger")
    y = te.compute((5, 12, 12), lambda c, i, j: te.sum(bigger[k, i, j] * w[k, c], axis=k), name="y")
    return x, w, y


def self_product() -> tuple[te.Tensor, ...]:
    a, k = te.placeholder((32, 24), name="a", dtype="uint8"), te.reduce_axis((0, 24), name="k")

    def entry(i: te.Var, j: te.Var) -> te.Expr:
        return te.sum(a[i, k].astype("int32") * a[j, k].astype("int32"), axis=k)

    return a, te.compute((32, 32), entry, name="c")


def sum_of_maxima() -> tuple[te.Tensor, ...]:
    a, b, k = te.placeholder((4, 256), name="a"), te.placeholder((4, 256), name="b"), te.reduce_axis((0, 256))
    return a, b, te.compute((4,), lambda i: te.sum(te.max(a[i, k], b[i, k]) * 2.0, axis=k), name="c")


def scaled(*, twice: bool) -> tuple[te.Tensor, ...]:
    """Elementwise only, of prime extents; or a product that two blocks read."""
    x, y = te.placeholder((7, 13, 48), name="x"), te.placeholder((48, 32), name="y")
    if not twice:
        return x, te.compute(x.shape, lambda i, j, k: te.max(x[i, j, k] * 2.0, 0.0), name="z")
    k = te.reduce_axis((0, 48), name="k")
    m = te.compute((13, 32), lambda i, j: te.sum(x[0, i, k] * y[k, j], axis=k), name="m")
    return x, y, te.compute(m.shape, lambda i, j: te.exp(m[i, j]) + m[i, j], name="z")


def to_scalar() -> tuple[te.Tensor, ...]:
    x, k = te.placeholder((1000,), name="x"), te.reduce_axis((0, 1000), name="k")
    return x, te.compute((), lambda: te.sum(x[k], axis=k), name="s")


def pooled() -> tuple[te.Tensor, ...]:
    x = te.placeholder((2, 5, 17, 17), name="x")
    return x, topi.nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "avg")


def two_outputs() -> tuple[te.Tensor, ...]:
    x, k = te.placeholder((64, 48), name="x"), te.reduce_axis((0, 48), name="k")
    m = te.compute((64,), lambda i: te.sum(x[i, k], axis=k), name="m")
    return (
        x,
        te.compute((64,), lambda i: m[i] + 1.0, name="p"),
        te.compute((64,), lambda i: m[i] * 2.0, name="q"),
    )


def two_convolutions() -> tuple[te.Tensor, ...]:
    """Both have the same name, and so have their caches."""
    x, w, v = (
        te.placeholder(s, name=n)
        for s, n in (((1, 8, 10, 10), "x"), ((8, 8, 3, 3), "w"), ((6, 8, 1, 1), "v"))
    )
    inner = topi.nn.relu(topi.nn.conv2d_nchw(x, w, 1, 1, 1))
    return x, w, v, topi.nn.conv2d_nchw(inner, v, 1, 0, 1)


def one_step(dtype: str, steps: int) -> tuple[te.Tensor, ...]:
    a, b = (
        te.placeholder((64, steps), name="a", dtype=dtype),
        te.placeholder((steps, 40), name="b", dtype=dtype),
    )
    k = te.reduce_axis((0, steps), name="k")
    return a, b, te.compute((64, 40), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")


ODD: dict[str, Callable[[], tuple[te.Tensor, ...]]] = {
    "unit_kernel": lambda: te_workload.conv2d_nhwc(1, 14, 14, 16, 24, 1, 2, 0),
    "batch": lambda: te_workload.conv2d_nhwc(4, 10, 10, 6, 8, 3, 1, 1),
    "prime": lambda: te_workload.conv2d_nhwc(1, 13, 17, 7, 11, 3, 1, 1),
    "grouped": lambda: te_workload.conv2d_nhwc(2, 9, 9, 12, 18, 3, 1, 1, 1, 3),
    "transposed_odd": lambda: te_workload.conv2d_transpose_nhwc(1, 5, 7, 6, 9, 3, 2, 1),
    "transposed_third": lambda: te_workload.conv2d_transpose_nhwc(1, 6, 6, 8, 12, 5, 3, 1),
    "matrix_vector": lambda: te_workload.matmul(1, 16, 1024),
    "half": lambda: te_workload.matmul(48, 40, 36, "float16", "float32"),
    "norm": lambda: te_workload.norm_bmn(3, 15, 21),
    "softmax_prime": lambda: te_workload.softmax_mn(13, 97),
    "layer_norm": layer_norm,
    "bias_relu": lambda: bias_relu(False),
    "relu_first": lambda: bias_relu(True),
    "two_layers": two_layers,
    "upsampled": upsampled,
    "self_product": self_product,
    "argmax": row_argmax,
    "sum_of_maxima": sum_of_maxima,
    "elementwise": lambda: scaled(twice=False),
    "shared_product": lambda: scaled(twice=True),
    "to_scalar": to_scalar,
    "swish": swish,
    "pooled": pooled,
    "two_outputs": two_outputs,
    "two_convolutions": two_convolutions,
    "double": lambda: one_step("float64", 96),
    "one_step": lambda: one_step("float32", 1),
    "batch_of_seven": lambda: te_workload.conv2d_nhwc(7, 15, 15, 12, 20, 3, 2, 1),
    "odd_groups": lambda: te_workload.conv2d_nhwc(1, 12, 12, 30, 45, 3, 1, 1, 1, 5),
    "dilated": lambda: te_workload.conv2d_nhwc(1, 20, 20, 8, 16, 3, 1, 2, 3),
}
# TensorCore sketches rewrite the layout of the program, which arrays cannot express.
TENSORISED = {"half"}


def sweep(tuned: object, n: int, seed: int) -> dict[str, int]:
    total = {"legal": 0, "rejected": 0, "groups": 0}
    for sketch, analysis in analyses(tuned):
        for key, count in check(tuned, sketch, analysis, n, np.random.default_rng(seed)).items():
            total[key] += count
    assert total["groups"] > 0
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_operators_equal_tvm(family: str) -> None:
    total = sweep(workload(f"{family}/0"), 8, 11)
    assert total["legal"] > 0
    assert total["rejected"] == 0 or family == "T2D"


@pytest.mark.parametrize("family", FAMILIES)
def test_cuda_operators_equal_tvm(family: str) -> None:
    sweep(workload(f"{family}/0", CUDA), 4, 12)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("index", [0, 1])
def test_hundred_candidates_equal_tvm(family: str, index: int) -> None:
    sweep(workload(f"{family}/{index}"), 100, 5)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_hundred_cuda_candidates_equal_tvm(family: str) -> None:
    sweep(workload(f"{family}/0", CUDA), 100, 5)


@pytest.mark.parametrize("name", ODD)
def test_odd_programs_equal_tvm(name: str) -> None:
    sweep(computed(*ODD[name]()), 5, 2)


@pytest.mark.parametrize("name", sorted(set(ODD) - TENSORISED))
def test_odd_cuda_programs_equal_tvm(name: str) -> None:
    sweep(computed(*ODD[name](), target=CUDA), 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_hundred_odd_candidates_equal_tvm(name: str) -> None:
    sweep(computed(*ODD[name]()), 100, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ODD) - TENSORISED))
def test_many_odd_cuda_candidates_equal_tvm(name: str) -> None:
    sweep(computed(*ODD[name](), target=CUDA), 30, 3)


@pytest.mark.parametrize("family", ["C2D", "SFM"])
def test_gpus_without_pipelines_and_with_few_threads_equal_tvm(family: str) -> None:
    small = {"max_threads_per_block": 256, "max_shared_memory_per_block": 16384, "thread_warp_size": 32}
    for target in (Target("nvidia/nvidia-t4"), Target({"kind": "cuda", "arch": "sm_75", **small})):
        sweep(workload(f"{family}/0", target), 6, 8)


def test_dynamic_loops_are_told_from_constant_ones() -> None:
    """Both verdicts are met often, so that neither accepting nor refusing everything would pass."""
    total = sweep(workload("T2D/0"), 40, 4)
    assert min(total["legal"], total["rejected"]) > 15


def test_resolving_again_changes_nothing_and_groups_by_location() -> None:
    tuned = workload("TBG/0")
    for sketch, analysis in analyses(tuned):
        rows = random_rows(sketch, 3000, np.random.default_rng(1))
        before = rows.copy()
        resolved = analysis.resolve(rows)
        assert (rows == before).all()
        assert (analysis.resolve(resolved) == resolved).all()
        columns = [gene.start for gene in sketch.genes if isinstance(gene, LocationGene)]
        groups = [members for members, _ in analysis.nests(resolved)]
        assert sorted(np.concatenate(groups).tolist()) == list(range(3000))
        assert len(groups) == len(np.unique(resolved[:, columns], axis=0))
        for members in groups:
            assert len(np.unique(resolved[members][:, columns], axis=0)) == 1


def test_extents_that_no_decision_changes_are_ints() -> None:
    tuned = workload("C2D/0")
    sketch, analysis = next(analyses(tuned))
    rows = analysis.resolve(random_rows(sketch, 50, np.random.default_rng(2)))
    for members, nest in analysis.nests(rows):
        conv = next(s for s in nest.statements if s.name == "conv2d_nhwc")
        # One image: its four tile levels have extent 1 in every row.
        assert [loop.extent for loop in conv.loops[::4][:2]] == [1, 1]
        assert conv.instances.tolist() == [112 * 112 * 64 * 7 * 7 * 3] * len(members)  # type: ignore[union-attr]


def test_no_rows_make_no_groups() -> None:
    sketch, analysis = next(analyses(workload("C2D/0")))
    empty = np.empty((0, sketch.width), dtype=np.int64)
    assert analysis.resolve(empty).shape == empty.shape
    assert list(analysis.nests(empty)) == []
    assert analysis.legal(empty)["dynamic_loop"].shape == (0,)


def test_an_instruction_without_symbolic_form_is_named() -> None:
    tuned = workload("GMM/0")
    schedule = Schedule(tuned.mod, seed=1)
    block = schedule.get_sblock("Z")
    schedule.transform_layout(block, ("write", 0), lambda b, i, j: (b, j, i))
    with pytest.raises(UnsupportedSketch, match="TransformLayout"):
        SketchAnalysis(tuned.mod, make_sketch(schedule), tuned.target)


def test_a_tile_of_a_tile_is_refused() -> None:
    tuned = workload("GMM/0")
    schedule = Schedule(tuned.mod, seed=1)
    loops = schedule.get_loops(schedule.get_sblock("Z"))
    parts = schedule.split(loops[1], schedule.sample_perfect_tile(loops[1], 2, 64, decision=[16, 8]))
    schedule.split(parts[1], schedule.sample_perfect_tile(parts[1], 2, 64, decision=[4, 2]))
    with pytest.raises(UnsupportedSketch, match="differs by row"):
        SketchAnalysis(tuned.mod, make_sketch(schedule), tuned.target)


def test_a_consumer_that_indexes_by_data_is_refused() -> None:
    index = te.placeholder((20,), name="index", dtype="int32")
    table = te.placeholder((50, 32), name="table")
    active = te.compute((50, 32), lambda i, j: table[i, j] * 2.0, name="active")
    tuned = computed(index, table, te.compute((20, 32), lambda i, j: active[index[i], j], name="rows"))
    schedule = Schedule(tuned.mod, seed=1)
    block = schedule.get_sblock("active")
    schedule.compute_at(block, schedule.sample_compute_location(block, decision=-1))
    with pytest.raises(UnsupportedSketch, match="rows indexes active by data"):
        SketchAnalysis(tuned.mod, make_sketch(schedule), tuned.target)
