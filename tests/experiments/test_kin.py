"""Tasks that differ only around their main reduction, by TVM's own operators."""

import os

import pytest
from tvm import te, topi

from experiments.kin import families
from pruner.records.read import read
from pruner.workload import load_task, make_task
from tests.experiments.made_up import CUDA
from tests.run_util import matmul


def conv(*, channels=16, relu=False, bias=False, dtype="float32", stride=1, name="data"):
    """A 3x3 convolution of 14x14 pixels."""
    data = te.placeholder((1, 8, 14, 14), dtype, name=name)
    weight = te.placeholder((channels, 8, 3, 3), dtype, name="weight")
    arguments = [data, weight]
    out = topi.nn.conv2d_nchw(data, weight, stride, 1, 1)
    if bias:
        arguments.append(te.placeholder((1, channels, 1, 1), dtype, name="bias"))
        out = topi.add(out, arguments[-1])
    if relu:
        out = topi.nn.relu(out)
    return make_task(te.create_prim_func([*arguments, out]), CUDA).mod


def test_what_follows_the_main_reduction_does_not_count():
    kin = [conv(), conv(relu=True), conv(bias=True), conv(relu=True, bias=True, name="x")]
    others = [conv(channels=32, relu=True), conv(dtype="float16"), conv(stride=2)]
    assert families([*kin, *others]) == [[0, 1, 2, 3], [4], [5], [6]]
    assert families([others[0], kin[0], others[1], kin[1]]) == [[0], [1, 3], [2]]


def test_what_comes_before_it_does_not_count_either():
    a, b = te.placeholder((32, 32), name="A"), te.placeholder((32, 32), name="B")
    k = te.reduce_axis((0, 32), name="k")
    doubled = te.compute((32, 32), lambda i, j: a[i, j] * 2.0, name="doubled")
    product = te.compute((32, 32), lambda i, j: te.sum(doubled[i, k] * b[k, j], axis=k), name="C")
    after_another = make_task(te.create_prim_func([a, b, product]), CUDA).mod
    plain, other = make_task(matmul(), CUDA).mod, make_task(matmul(64), CUDA).mod
    assert families([plain, after_another, other]) == [[0, 1], [2]]


def test_programs_without_a_reduction_are_kin_when_they_are_equal():
    def mod(n, function):
        a = te.placeholder((n, n), name="A")
        return make_task(te.create_prim_func([a, function(a)]), CUDA).mod

    modules = [mod(8, topi.nn.relu), mod(8, topi.exp), mod(16, topi.exp), mod(8, topi.nn.relu), conv()]
    assert families(modules) == [[0, 3], [1], [2], [4]]
    assert families([]) == []


def test_operators_of_different_shapes_are_not():
    names = ["C2D/0", "C2D/1", "CBR/0", "CBR/1", "GMM/0", "GMM/1", "DEP/0", "SFM/0", "NRM/0"]
    assert families([load_task(name, CUDA).mod for name in names]) == [[i] for i in range(len(names))]


@pytest.mark.slow
@pytest.mark.skipif("PRUNER_DATA" not in os.environ, reason="PRUNER_DATA does not say where the records are")
def test_a_networks_convolutions_with_and_without_a_residual_are_kin():
    dataset, _ = read(f"{os.environ['PRUNER_DATA']}/metaschedule/a100-resnet34")
    ids = [task.id for task in dataset.tasks]
    found = [[ids[i] for i in family] for family in families([task.mod for task in dataset.tasks])]
    assert [family for family in found if len(family) > 1] == [
        ["5", "6"],
        ["8", "9"],
        ["11", "12"],
        ["14", "15"],
    ]
