"""What TVM's rules write passes; what would end this process by a signal, or never, is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.target import Target

from pruner.records.database import plain
from pruner.records.trace_upgrade import upgrade
from pruner.search.materialise import tune_context
from pruner.workload import load_task, make_task

CPU = Target({"kind": "llvm", "num-cores": 2})
GPU = Target("nvidia/nvidia-a100")


def written(schedule: Schedule) -> list[Any]:
    """The instructions of its trace, as a file gives them back."""
    instructions: list[Any] = json.loads(json.dumps(plain(schedule.trace.as_json())))[0]
    return instructions


@pytest.mark.parametrize("target", [CPU, GPU], ids=["llvm", "cuda"])
@pytest.mark.parametrize("name", ["GMM/0", "C2D/0", "CBR/0", "SFM/0", "NRM/0", "T2D/0"])
def test_what_the_rules_of_tvm_write_passes(name: str, target: Target) -> None:
    for schedule in tune_context(load_task(name, target)).generate_design_space():
        assert upgrade(written(schedule)).instructions == written(schedule)


def test_what_the_rules_for_tensor_cores_write_passes() -> None:
    tensors = te_workload.batch_matmul_nkkm(1, 512, 512, 512, in_dtype="float16", out_dtype="float32")
    task = make_task(te.create_prim_func(list(tensors)), GPU)
    context = ms.TuneContext(
        mod=task.mod,
        target=GPU,
        space_generator=ms.space_generator.PostOrderApply(sch_rules="cuda-tensorcore"),
        num_threads=1,
    )
    found = [written(schedule) for schedule in context.generate_design_space()]
    assert any(name == "TransformLayout" for instructions in found for name, *_ in instructions)
    assert [upgrade(instructions).instructions for instructions in found] == found


def test_primitives_that_rules_of_other_targets_use_pass() -> None:
    def schedule(*apply: Any) -> Schedule:
        made = Schedule(load_task("GMM/0", CPU).mod)
        block = made.get_sblock("Z")
        for each in apply:
            each(made, block)
        return made

    for apply in (
        lambda s, b: s.transform_layout(
            b, ("read", 0), lambda x, i, j: [x, i, j // 48, j % 48], pad_value=0.0
        ),
        lambda s, b: s.transform_block_layout(b, lambda a, i, j, k: [a, i * 128 + j, k]),
        lambda s, b: s.reindex(b, ("write", 0)),
        lambda s, b: s.cache_write(b, 0, "global") and s.storage_align(b, 0, 0, 16, 8),
        lambda s, b: s.rfactor(s.get_loops(b)[-1], 0),
        lambda s, b: s.blockize(s.get_loops(b)[-1]),
        lambda s, b: s.pad_einsum(b, [1, 16, 16, 16]),
        lambda s, b: s.annotate(b, "software_pipeline_stage", [0, 1]),
        lambda s, b: s.split(s.get_loops(b)[1], [None, 4]),
        lambda s, b: s.decompose_reduction(b, s.get_loops(b)[2]),
    ):
        instructions = written(schedule(apply))
        assert upgrade(instructions).instructions == instructions


BLOCK = ["GetSBlock", [], ["Z", "main"], ["b0"]]
HOSTILE = [
    (["Annotate", [None, 64], ["x"], []], "instruction form"),
    (["Annotate", ["None", 64], ["x"], []], "instruction form"),
    (["Annotate", ["b1", 64], ["x"], []], "instruction form"),
    (["Annotate", ["b0", [1, "a"]], ["x"], []], "instruction form"),
    (["Annotate", ["b0", 2**40], ["x"], []], "instruction form"),
    (["Annotate", ["b0", float("inf")], ["x"], []], "instruction form"),
    (["Annotate", ["b0", [0]], ["meta_schedule.vectorize"], []], "instruction form"),
    (["Annotate", ["b0", -1], ["meta_schedule.parallel"], []], "negative count"),
    (["GetLoops", ["b0"], [], ["None"]], "instruction form"),
    (["GetLoops", ["b0"], [1], ["l1"]], "instruction form"),
    (["ComputeAt", ["b0", "b0"], [1, None], []], "instruction form"),
    (["Split", ["b0", 0, 1], [1, 0], []], "split by no positive factor"),
    (["CacheRead", ["b0", [None]], [0, "local"], ["b1"]], "instruction form"),
    (["LoadAll", [], [], []], "unknown instruction"),
    (["GetSBlock", [], ["{", "main"], ["b1"]], "text that is no index map"),
]


@pytest.mark.parametrize(("instruction", "reason"), HOSTILE)
def test_what_tvm_trusts_is_checked(instruction: Any, reason: str) -> None:
    upgrade([BLOCK])
    with pytest.raises(ValueError, match=reason):
        upgrade([BLOCK, instruction])
