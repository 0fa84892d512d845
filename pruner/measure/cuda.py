"""From a scheduled module to CUDA source and the launches of its kernels. Needs neither a GPU nor nvcc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import Call, IRModule, Op
from tvm.target import Target
from tvm.tirx import AllocBuffer, DeclBuffer, For, IntImm, PrimFunc
from tvm.tirx.build import codegen_build, split_host_device_mods
from tvm_ffi import structural_walk

from pruner.errors import CompileError
from pruner.measure.cause import root_cause
from pruner.measure.program import ENTRY, Argument, arguments_of

_SPLIT = "tirx.SplitHostDevice"
_LAUNCH = Op.get("tirx.call_ffi_kernel")
_DYNAMIC_SHARED = "tirx.use_dyn_shared_memory"
# Without it, TVM would compile and load the code where it finds a CUDA driver.
_SOURCE_ONLY = "TVM_COMPILE_FORCE_FALLBACK"
# That is a setting of the process: of two threads that set it at once, one would leave it set.
_setting = threading.Lock()


@dataclass(frozen=True)
class Launch:
    """One kernel launch. grid, block: blocks and threads in x, y, z. arguments: for each of the kernel's
    parameters the number of its buffer in `Generated.buffers`. dynamic_shared_bytes: shared memory that is
    asked for at the launch, beside the static one."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int, ...]
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True)
class Generated:
    """A program as CUDA C++. launches: in the order in which they run, one after the other.
    buffers: the program's `parameters` parameters, then the workspaces that its kernels share."""

    source: str
    launches: tuple[Launch, ...]
    buffers: tuple[Argument, ...]
    parameters: int


def generate(mod: IRModule, target: Target) -> Generated:
    """What TVM's own build generates; several threads may ask at once. mod: one scheduled function called
    `main`; target: a cuda target.

    Raises CompileError when TVM cannot generate it, or a launch depends on more than constants.
    """
    captured: list[IRModule] = []

    @tvm.instrument.pass_instrument
    class Capture:
        """Keeps the module between host and device code: there a launch still names the buffers."""

        def run_after_pass(self, mod: IRModule, info: Any) -> None:
            if info.name == _SPLIT:
                captured.append(mod)

    arguments = arguments_of(mod)
    host = target.host or Target("llvm" if tvm.runtime.enabled("llvm") else "c")
    try:
        pipeline, _, finalize = tvm.tirx.get_default_tir_pipeline(target)
        bound = tvm.tirx.transform.BindTarget(target.with_host(host))(mod)
        with tvm.transform.PassContext(instruments=[Capture()]):
            lowered = pipeline(bound)
        _, device = split_host_device_mods(lowered)
        with _source_only():
            modules = [codegen_build(finalize()(part), on) for on, part in device.items()]
    except Exception as error:  # TVM raises many kinds
        raise CompileError(
            f"TVM cannot generate CUDA code: {root_cause(str(error) or repr(error))}"
        ) from error
    if not modules:
        raise CompileError("no loop of the program is bound to the threads of a GPU, so it has no kernel.")
    launches, workspaces = _launches(captured[-1][ENTRY])
    source = str(modules[0].inspect_source("cuda"))
    return Generated(source, launches, (*arguments, *workspaces), len(arguments))


def _launches(main: PrimFunc) -> tuple[tuple[Launch, ...], list[Argument]]:
    """The launches in order, and the buffers that are neither input nor output."""
    roots: dict[Any, int] = {param: number for number, param in enumerate(main.params)}
    workspaces: list[Argument] = []
    launches: list[Launch] = []

    # Only gathered in the walk: an error that a callback raises comes out of it as one of another kind.
    found: list[Any] = []
    structural_walk(main.body, [(kind, found.append) for kind in (AllocBuffer, DeclBuffer, Call, For)])
    loop = next((node for node in found if isinstance(node, For)), None)
    if loop is not None:
        raise CompileError(f"the program launches kernels in a loop over {loop.loop_var.name}.")
    for node in found:
        if isinstance(node, AllocBuffer):
            roots[node.buffer] = len(main.params) + len(workspaces)
            shape = tuple(int(extent) for extent in node.buffer.shape)
            workspaces.append(Argument(shape, str(node.buffer.dtype)))
        elif isinstance(node, DeclBuffer):
            roots[node.buffer] = roots[_buffer(node.data)]
        elif node.op.same_as(_LAUNCH):
            launches.append(_launch(node, roots))
    return tuple(launches), workspaces


def _launch(node: Call, roots: dict[Any, int]) -> Launch:
    """`call_ffi_kernel(name, arguments…, extents…)`, whose attributes say what the extents are of."""
    tags = [str(tag) for tag in node.attrs.launch_params]
    name, *rest = node.args
    given, extents = rest[: len(rest) - len(tags)], rest[len(rest) - len(tags) :]
    sizes = {}
    for tag, extent in zip(tags, extents, strict=True):
        if not isinstance(extent, IntImm):
            raise CompileError(f"kernel {name.value}: the extent of {tag} is {extent}, not a constant.")
        sizes[tag] = int(extent.value)
    x, y, z = ((sizes.get(f"blockIdx.{axis}", 1), sizes.get(f"threadIdx.{axis}", 1)) for axis in "xyz")
    return Launch(
        str(name.value),
        (x[0], y[0], z[0]),
        (x[1], y[1], z[1]),
        tuple(roots[_buffer(argument)] for argument in given),
        sizes.get(_DYNAMIC_SHARED, 0),
    )


def _buffer(data: Any) -> Any:
    """The buffer in `buffer.data`. Raises CompileError for another kernel argument."""
    if not isinstance(data, Call) or str(data.op.name) != "tirx.buffer_data":
        raise CompileError(f"a kernel takes {data}, which is no buffer.")
    return data.args[0]


@contextmanager
def _source_only() -> Iterator[None]:
    with _setting:
        before = os.environ.get(_SOURCE_ONLY)
        os.environ[_SOURCE_ONLY] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SOURCE_ONLY]
            else:
                os.environ[_SOURCE_ONLY] = before
