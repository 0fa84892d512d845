"""Workloads and targets by name and file, and what is said about those that cannot be used."""

from pathlib import Path

import pytest
import tvm_ffi
from tvm import te
from tvm.ir import IRModule
from tvm.s_tir.meta_schedule import TuneContext
from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload
from tvm.target import Target

from pruner._tvm import fast_intrinsics
from pruner.errors import ConfigError, UntunableError
from pruner.workload import load_task, make_task, resolve_target

TARGET = Target({"kind": "llvm", "num-cores": 2})

PROGRAMS = """
from tvm import te
from tvm.script import ir as I
from tvm.script import tirx as T


def matmul(size=8):
    a = te.placeholder((size, size), name="a")
    k = te.reduce_axis((0, size), name="k")
    return te.create_prim_func(
        [a, te.compute((size, size), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), name="c")]
    )


def number():
    return 3


def failing():
    raise RuntimeError("out of order")


@T.prim_func(s_tir=True)
def symbolic(a: T.handle, b: T.handle):
    n = T.int64()
    x = T.match_buffer(a, (n, 4))
    y = T.match_buffer(b, (n, 4))
    for i, j in T.grid(n, 4):
        with T.sblock("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] + 1.0


@T.prim_func(s_tir=True)
def scalar(x: T.Buffer((4,), "float32"), s: T.float32, y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("y"):
            vi = T.axis.spatial(4, i)
            y[vi] = x[vi] * s


@I.ir_module
class Two:
    @T.prim_func(s_tir=True)
    def first(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = x[vi] * 2.0

    @T.prim_func(s_tir=True)
    def second(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = x[vi] * 3.0
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    path = tmp_path / "programs.py"
    path.write_text(PROGRAMS)
    return path


def test_a_named_task_is_what_metaschedule_would_tune() -> None:
    fast_intrinsics()
    task = load_task("GMM/0", TARGET)
    assert tvm_ffi.structural_equal(task.mod, TuneContext(mod=create_te_workload("GMM", 0)).mod)
    assert [v.name_hint for v in task.mod.get_global_vars()] == ["main"]
    assert task.flop == 2 * 128**3
    assert task.name == "GMM/0"


@pytest.mark.parametrize("name", ["GMM/9", "GMM/-1", "GMM/" + "9" * 5000, "XYZ/0", "gmm", ""])
def test_an_unknown_workload_lists_families_and_indices(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_task(name, TARGET)
    for said in (f'"{name}"', "C2D/0..3", "SFM/0..3", "path/file.py:function"):
        assert said in str(caught.value)


def test_an_operator_that_tvm_lists_but_cannot_make_is_one_message() -> None:
    with pytest.raises(ConfigError, match="this TVM cannot make it"):
        load_task("C2D_WIN_NHWC/0", TARGET)


def test_a_function_of_a_file_may_make_its_program(programs: Path) -> None:
    assert load_task(f"{programs}:matmul", TARGET).flop == 2 * 8**3


def test_a_function_of_a_module_in_a_file_can_be_named(programs: Path) -> None:
    task = load_task(f"{programs}:second", TARGET)
    assert [v.name_hint for v in task.mod.get_global_vars()] == ["main"]
    assert "T.float32(3.0)" in task.mod.script()


def test_printed_scripts_are_read_back(tmp_path: Path) -> None:
    task = load_task("C1D/0", TARGET)
    path = tmp_path / "printed.py"
    path.write_text(task.mod.script())
    assert tvm_ffi.structural_equal(load_task(str(path), TARGET).mod, task.mod)
    assert tvm_ffi.structural_equal(load_task(f"{path}:main", TARGET).mod, task.mod)
    path.write_text(task.mod["main"].script())
    assert tvm_ffi.structural_equal(load_task(str(path), TARGET).mod, task.mod)


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        (None, ConfigError, ["3 programs", ":matmul", ":symbolic", ":Two", ":second"]),
        ("missing", ConfigError, ['no program "missing"', ":matmul"]),
        ("number", ConfigError, ["returned a int", "PrimFunc"]),
        ("failing", ConfigError, ["RuntimeError: out of order"]),
        ("Two", ConfigError, ["2 functions (first, second)"]),
        ("symbolic", UntunableError, ["symbolic", "fixed shape"]),
        ("scalar", UntunableError, ["must be a tensor"]),
    ],
)
def test_what_a_file_cannot_give_is_said(
    programs: Path, name: str | None, error: type[Exception], said: list[str]
) -> None:
    with pytest.raises(error) as caught:
        load_task(f"{programs}:{name}" if name else str(programs), TARGET)
    for words in said:
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n    pass\n", "line 1 is not Python"),
        ("import no_such_package\n", "ModuleNotFoundError"),
        ("raise SystemExit(3)\nimport sys\n", "SystemExit"),
        ("", "Define a PrimFunc"),
        ("import os\n", "Define a PrimFunc"),
        ("x = 3\n", "Define a PrimFunc"),
    ],
)
def test_a_broken_file_is_one_message(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_task(str(path), TARGET)


def test_a_missing_file_names_itself_and_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"no file {tmp_path}/absent.py"):
        load_task(f"{tmp_path}/absent.py:f", TARGET)


def test_make_task_refuses_what_is_no_program() -> None:
    with pytest.raises(ConfigError, match="PrimFunc"):
        make_task(3, TARGET)
    with pytest.raises(ConfigError, match="0 functions"):
        make_task(IRModule({}), TARGET)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_integer_arguments_and_a_buffer_read_twice_make_a_task(dtype: str) -> None:
    a = te.placeholder((8, 8), name="a", dtype=dtype)
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), name="c")
    assert make_task(te.create_prim_func([a, c]), TARGET).flop == 2 * 8**3


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "llvm", "mcpu": "znver4"},
        '{"kind": "llvm", "mcpu": "znver4"}',
        "llvm -mcpu=znver4",
        "llvm --mcpu=znver4",
        "llvm -mcpu znver4",
        Target({"kind": "llvm", "mcpu": "znver4"}),
    ],
)
def test_a_cpu_target_is_completed_and_that_is_said(given: object) -> None:
    target, notes = resolve_target(given, 3)  # type: ignore[arg-type]
    assert target.kind.name == "llvm"
    assert target.attrs["num-cores"] == 3
    assert target.attrs["mcpu"] == "znver4"
    assert "num-cores" in notes[-1]
    assert "3" in notes[-1]


def test_a_complete_target_is_left_alone() -> None:
    assert resolve_target({"kind": "llvm", "num-cores": 5}, 2)[0].attrs["num-cores"] == 5
    assert resolve_target({"kind": "llvm", "num-cores": 5}, 2)[1] == []
    target, notes = resolve_target("nvidia/nvidia-a100", 2)
    assert (target.kind.name, notes) == ("cuda", [])


def test_the_old_string_form_is_translated() -> None:
    target, notes = resolve_target("llvm -mcpu=znver4 -num-cores 4 -mattr=+avx2,+fma", 2)
    assert target.attrs["num-cores"] == 4
    assert list(target.attrs["mattr"]) == ["+avx2", "+fma"]
    assert len(notes) == 1
    assert "old string form" in notes[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nonsense", "llvm"),
        ({"kind": "nonsense"}, "cuda"),
        ({"kind": "llvm", "colour": 1}, "colour"),
        ({}, "kind"),
        ('{"kind": ', "not JSON"),
        pytest.param('{"a": ' + "[" * 100_000, "not JSON", id="nested"),
        ('{"kind": "llvm", "num-cores": ' + "9" * 5000 + "}", "not JSON"),
        ('llvm -mcpu="znver4', "No closing quotation"),
        ("llvm mcpu", "not an option"),
        ("llvm -colour=1", "colour"),
        ("nvidia/no-such-card", "nvidia/nvidia-a100"),
    ],
)
def test_an_unknown_target_says_what_is_accepted(given: str | dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match="Accepted are") as caught:
        resolve_target(given, 2)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "llvm", "mcpu": "znver"}, "no CPU znver .*znver4"),
        ("llvm -mcpu=bogus", "no CPU bogus"),
        ("llvm -mtriple=nowhere", "no machine nowhere"),
        ("llvm -jit=bogus", "invalid jit option bogus"),
        ({"kind": "llvm", "num-cores": 0}, "num-cores=0"),
        ({"kind": "llvm", "num-cores": -2}, "num-cores=-2"),
    ],
)
def test_what_llvm_would_pass_over_in_silence_is_refused(given: str | dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve_target(given, 2)
