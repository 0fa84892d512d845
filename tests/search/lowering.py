"""What TVM allocates for the kernels of a schedule: the passes of its `VerifyGPUCode`, run one by one."""

from __future__ import annotations

import math

import tvm
from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir import transform as s_tir
from tvm.tirx import transform


def shared_bytes(tuned: ms.TuneContext, schedule: Schedule) -> list[int]:
    """Bytes of shared memory by kernel, in ascending order, after the post-processors before the verifier.
    Raises when TVM cannot lower the program."""
    schedule.enter_postproc()
    for step in tuned.space_generator.postprocs:
        if type(step).__name__ == "VerifyGPUCode":
            break
        assert step.apply(schedule), type(step).__name__
    function = schedule.mod["main"].with_attr("global_symbol", "main").with_attr("target", tuned.target)
    module = IRModule({"main": function.with_attr("tirx.noalias", True)})
    passes = [
        s_tir.LowerCrossThreadReduction(),
        s_tir.LowerInitBlock(),
        s_tir.PlanAndUpdateBufferAllocationLocation(),
        s_tir.ConvertBlocksToOpaque(),
        s_tir.LiftThreadBinding(),
        s_tir.ManifestSharedMemoryLocalStage(),
        s_tir.CompactBufferAllocation(),
        transform.StmtSimplify(),
        s_tir.LowerAutoCopy(),
        s_tir.UnifyThreadBinding(),
        s_tir.LowerMatchBuffer(),
        s_tir.InjectSoftwarePipeline(),
        s_tir.LowerOpaqueBlock(),
        transform.FlattenBuffer(),
        transform.NarrowDataType(32),
        transform.StmtSimplify(),
        transform.VectorizeLoop(True),
        s_tir.InjectVirtualThread(),
        s_tir.InjectDoubleBuffer(),
        transform.StorageRewrite(),
        s_tir.MergeSharedMemoryAllocations(),
    ]
    lowered = tvm.transform.Sequential(passes)(module)
    kernels: list[int] = []
    _allocations(lowered["main"].body, kernels, inside=False)
    return sorted(kernels)


def _allocations(stmt: tirx.Stmt, kernels: list[int], *, inside: bool) -> None:
    match stmt:
        case tirx.SeqStmt():
            for part in stmt.seq:
                _allocations(part, kernels, inside=inside)
        case tirx.AttrStmt() if stmt.attr_key in ("thread_extent", "virtual_thread"):
            if not inside:
                kernels.append(0)
            inside = True
        case tirx.AllocBuffer() if inside and stmt.buffer.scope() == "shared":
            dtype = stmt.buffer.dtype
            kernels[-1] += math.prod(map(int, stmt.buffer.shape)) * dtype.bits * dtype.lanes // 8
    for name in ("body", "then_case", "else_case"):
        below = getattr(stmt, name, None)
        if isinstance(below, tirx.Stmt):
            _allocations(below, kernels, inside=inside)
