"""What the columns of the `symbols` features hold, in plain words: for a CPU and, where another quantity of a
GPU has the same role, for a GPU."""

from __future__ import annotations

_MAIN = "main statement: "

# How a column's numbers are written, by what `symbols` does with it.
PLAIN, LOG, NANOSECONDS = "", ", log2(1 + x)", ", log2(1 + nanoseconds)"

_ROLES = {
    "outer": ("the outer loops", "blocks and threads"),
    "R0": ("the outer reduction R0", "the reduction steps R0"),
    "S2": ("the second spatial tile S2", "virtual threads and the spatial tile S3"),
    "R1": ("the inner reduction R1", "the inner reductions R1 and R2"),
    "S3": ("the register tile S3", "the innermost spatial tile S4"),
}
_BY_ROLE = {
    "{role}_product": "product of the lengths of the loops of {words}",
    "{role}_loops": "loops of {words} that run more than once",
    "bytes_in_{role}": "bytes touched inside {words}",
}
_PENALTIES = {
    "l0_memory": "registers",
    "l0_compute": "work of a register tile",
    "l1_memory": "private memory",
    "l1_compute": "vectors or warps that fill up the pipes or schedulers",
    "l2_compute": "cores or multiprocessors that all have work",
}

# Of the program.
_PROGRAM = {
    "seconds": "seconds of the program that the roofline draft predicts",
    "symbol_seconds": "seconds of the program that the paper's formula predicts",
    "launch_seconds": "seconds of starting parallel loops or kernels",
    "nests": "loop nests, each a parallel loop or a kernel",
}
_SIDE = {
    "": "how many other statements come {when} the main one",
    "_instances": "executions of the statements {when} the main one",
    "_core_seconds": "predicted seconds of the inner code of the statements {when} the main one",
    "_far_seconds": "predicted seconds of the memory traffic of the statements {when} the main one",
    "_scalar": "how many statements {when} the main one work element by element",
    "_lanes": "elements that an instruction works on, summed over the statements {when} the main one",
    "_depth": "the most loops that a statement {when} the main one shares with others",
}

# Of the main statement, on a CPU.
_CPU = {
    "innermost_spatial": "length of the innermost spatial loop",
    "innermost_reduction": "length of the innermost reduction loop",
    "chunks": "iterations of the parallel loop",
    "imbalance": "work of the fullest core over that of an even share",
    "serial_outer": "iterations of the outer loops in one of the parallel loop",
    "parallel_loops": "loops that are fused to the parallel one",
    "vector_loops": "loops that are fused to the vector one",
    "vector_lanes": "length of the vector loop",
    "unroll": "the largest loop body that is to be unrolled",
    "unrolled_tile": "1 where the register tile is straight-line code",
    "unrolled_reduction": "1 where the inner reduction is too",
    "unrolled_wide": "1 where the second tile is too",
    "straight": "1 where TVM unrolls the loop that LLVM needs to find vectors",
    "lanes": "elements that a vector instruction works on",
    "vectors": "registers that one vector of the schedule takes",
    "instances": "vector instructions for one operation of every execution",
    "own_vector": "1 where LLVM finds the vectors, not TVM",
    "tile": "accumulator registers of the register tile",
    "wide": "accumulator registers of the register tile and the second tile",
    "inner": "steps of the inner reduction",
    "kept": "vector operations for each load and store of an accumulator",
    "promoted": "1 where accumulators stay in registers over the outer reduction",
    "chains": "independent accumulations in flight",
    "loads": "registers loaded for each vector operation",
    "gathered": "of those, the ones that need a load for every lane",
    "spilled": "share of the accumulators that find no register",
    "body": "vector operations in an iteration of the innermost loop that remains",
    "largest_input_tile": "bytes of the largest input that a register tile touches",
    "smallest_input_tile": "bytes of the smallest input that a register tile touches",
    "largest_input_step": "bytes of the largest input that a step of the outer reduction touches",
    "smallest_input_step": "bytes of the smallest input that a step of the outer reduction touches",
    "output_tile": "bytes of the output that a register tile touches",
    "output_step": "bytes of the output that a step of the outer reduction touches",
    "fetched_l1": "bytes fetched into the L1 cache",
    "fetched_private": "bytes fetched into a core's last private cache",
    "fetched_shared": "bytes fetched into the last cache",
    "fits_l1": "1 where all that it touches fits the L1 cache",
    "fits_private": "1 where all that it touches fits a core's last private cache",
    "S1_register_bytes": "the paper's S1, bytes of a register tile",
    "S2_register_work": "the paper's S2, executions between two blocks of the outer loops",
    "S3_private_bytes": "the paper's S3, bytes of inputs that a step loads into private memory",
    "S4_private_units": "the paper's S4, independent vectors of a register tile",
    "S5_traffic": "the paper's S5, bytes loaded from memory and stored",
    "S7_run": "the paper's S7, bytes that lie next to each other in a load, at least",
    "S8_operations": "the paper's S8, arithmetic operations",
    "data": "bytes of all the program's buffers",
    "select": "1 where it tests for padding or selects",
    "core_seconds": "predicted seconds of the inner code",
    "near_seconds": "predicted seconds of the traffic of a core's caches",
    "far_seconds": "predicted seconds of the traffic of shared cache and memory",
    "share": "part of the work that the fullest core gets",
}
# Where a GPU's is another.
_GPU = {
    "chunks": "blocks",
    "imbalance": "work of the fullest multiprocessor over that of an even share",
    "serial_outer": "how often a multiprocessor is filled with blocks",
    "parallel_loops": "blocks that a multiprocessor holds at once",
    "vector_loops": "virtual threads",
    "vector_lanes": "threads of a block",
    "unrolled_tile": "1 where the innermost tile is straight-line code",
    "unrolled_wide": "1 where virtual threads and the tile S3 are too",
    "straight": "1 where accumulators are in local memory",
    "lanes": "threads of a block",
    "vectors": "warps of a block",
    "instances": "executions of each thread of a block, over all blocks",
    "own_vector": "1 where shared memory holds copies for a software pipeline",
    "tile": "accumulators of a thread",
    "wide": "registers that a thread would hold at once",
    "inner": "steps of both inner reductions",
    "kept": "updates of an accumulator while it is in a register",
    "promoted": "1 where accumulators are in registers",
    "loads": "elements a thread reads for each statement of its straight-line code",
    "gathered": "operands that threads read from global memory themselves",
    "spilled": "share of the registers beyond those a thread can have",
    "body": "statements of straight-line code",
    "largest_input_tile": "bytes of the largest input that a thread's innermost tile touches",
    "smallest_input_tile": "bytes of the smallest input that a thread's innermost tile touches",
    "largest_input_step": "bytes of a thread's largest input in one step",
    "smallest_input_step": "bytes of a thread's smallest input in one step",
    "output_tile": "bytes of the output that a thread's innermost tile touches",
    "output_step": "bytes of the output that a thread touches in one step",
    "bytes_in_outer": "bytes of all the program's buffers",
    "fetched_l1": "bytes of shared memory of a block, copies for a pipeline included",
    "fetched_private": "bytes that one step stages in shared memory",
    "fetched_shared": "bytes of local memory of all threads",
    "fits_l1": "1 where a thread's registers suffice",
    "fits_private": "1 where all blocks run at once",
    "S1_register_bytes": "the paper's S1, bytes of registers of a thread",
    "S2_register_work": "the paper's S2, executions of a thread",
    "S3_private_bytes": "the paper's S3, bytes that a step stages in shared memory",
    "S4_private_units": "the paper's S4, threads of a block",
    "near_seconds": "predicted seconds of shared and local memory and of fetch instructions",
    "far_seconds": "predicted seconds of the sectors moved from memory",
    "share": "part of the work that the fullest multiprocessor gets",
}


def _table(gpu: bool) -> dict[str, str]:
    found = dict(_PROGRAM)
    for pattern, text in _BY_ROLE.items():
        for role, words in _ROLES.items():
            found[pattern.format(role=role)] = _MAIN + text.format(words=words[gpu])
    found |= {name: _MAIN + text for name, text in (_CPU | _GPU if gpu else _CPU).items()}
    found |= {
        f"penalty_{name}": f"{_MAIN}the paper's penalty for {what}, from 0 to 1 (none)"
        for name, what in _PENALTIES.items()
    }
    for side, when in (("producers", "before"), ("consumers", "after")):
        found |= {f"{side}{name}": text.format(when=when) for name, text in _SIDE.items()}
    return found


_WORDS = {"cpu": _table(False), "gpu": _table(True)}


def explained(column: str, kind: str) -> str:
    """What a column holds on a device of the kind, `cpu` or `gpu`."""
    return _WORDS[kind][column]
