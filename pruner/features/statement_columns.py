"""The columns of TVM's per-store features: their names, and what they hold in plain words."""

from __future__ import annotations

# TVM's defaults, which its own cost model uses too.
BUFFERS = 5
INTENSITIES = 10
CACHE_LINE = 64

_LOG = "log2(1 + x)"
_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th")

_OPERATIONS = {
    "mad": "multiply-adds",
    "add_sub": "additions and subtractions",
    "mul": "multiplications",
    "div_mod": "divisions and remainders",
    "cmp": "comparisons",
    "math": "calls of mathematical functions",
    "other": "calls of other functions",
}
_ARITHMETIC = {
    **{f"float_{op}": f"floating-point {words}" for op, words in _OPERATIONS.items()},
    **{f"int_{op}": f"integer {words}" for op, words in _OPERATIONS.items()},
    "bool": "logical operations",
    "select": "selections between two values",
}
_KINDS = {"vectorize": "vectorised", "unroll": "unrolled", "parallel": "parallel"}
_LOOPS = {
    "loops": f"how many loops around the store are KIND, {_LOG}",
    "product": f"product of the lengths of the KIND loops, {_LOG}",
    "innermost": f"length of the innermost KIND loop, {_LOG}",
}
_POSITIONS = {
    "none": "no loop is KIND",
    "inner_spatial": "the KIND loops are inner spatial ones",
    "middle_spatial": "the KIND loops are middle spatial ones",
    "outer_spatial": "the KIND loops are outer spatial ones",
    "inner_reduce": "the KIND loops are inner reduction loops",
    "middle_reduce": "the KIND loops are middle reduction loops",
    "outer_reduce": "the KIND loops are outer reduction loops",
    "mixed": "there are KIND loops; TVM does not tell which",
}
_THREADS = {
    "is_gpu": "1 for a program of a GPU",
    **{
        f"{index}_{axis}": f"length of the loop bound to {index}.{axis}, {_LOG}"
        for index in ("blockIdx", "threadIdx")
        for axis in "xyz"
    },
    "vthread": f"length of the loop of virtual threads, {_LOG}",
}
_BUFFER = {
    "is_read": "1 where the store only reads it",
    "is_write": "1 where the store only writes it",
    "is_read_write": "1 where the store reads and writes it",
    "bytes": f"bytes moved in all, {_LOG}",
    "unique_bytes": f"bytes of different elements touched, {_LOG}",
    "lines": f"cache lines moved in all, {_LOG}",
    "unique_lines": f"different cache lines touched, {_LOG}",
    "reuse_in_loop": "1 where a loop reads the same elements again",
    "reuse_in_sequence": "1 where statements of one loop touch it in turn",
    "reuse_none": "1 where nothing is used again",
    "reuse_distance_iterations": f"iterations until an element is used again, {_LOG}",
    "reuse_distance_bytes": f"bytes touched until an element is used again, {_LOG}",
    "reuse_count": f"how often an element is used again, {_LOG}",
    "bytes_per_reuse": f"bytes over the reuse count (1/2 where there is none), {_LOG}",
    "unique_bytes_per_reuse": f"unique bytes over the reuse count (1/2 where there is none), {_LOG}",
    "lines_per_reuse": f"lines over the reuse count (1/2 where there is none), {_LOG}",
    "unique_lines_per_reuse": f"unique lines over the reuse count (1/2 where there is none), {_LOG}",
    "stride": f"elements that one iteration of the innermost loop moves it, {_LOG}",
}
_REST = {
    "alloc_bytes": f"bytes allocated for the buffer that is stored to, {_LOG}",
    "alloc_product": f"its elements, times the lengths of the loops around its allocation, {_LOG}",
    "alloc_outer_product": f"product of the lengths of the loops around its allocation, {_LOG}",
    "alloc_inner_product": f"product of the lengths of the loops from its allocation to the store, {_LOG}",
    "outer_product": f"product of the lengths of all loops around the store, {_LOG}",
    "outer_loops": f"how many loops are around the store, {_LOG}",
    "auto_unroll_max_step": f"the largest loop body that the compiler may unroll, {_LOG}",
}


def _explained() -> dict[str, str]:
    """Names and words in the order in which TVM's `per_store_feature.cc` exports its five groups."""
    found = {name: f"{words}, of all executions of the store, {_LOG}" for name, words in _ARITHMETIC.items()}
    for kind, words in _KINDS.items():
        found |= {f"{kind}_{entry}": text.replace("KIND", words) for entry, text in _LOOPS.items()}
        found |= {
            f"{kind}_at_{place}": f"1 where {text.replace('KIND', words)}"
            for place, text in _POSITIONS.items()
        }
    found |= _THREADS
    for i in range(BUFFERS):
        found |= {
            f"buffer{i}_{entry}": f"{_ORDINALS[i]} buffer of the store, by lines moved: {text}"
            for entry, text in _BUFFER.items()
        }
    found |= {
        f"intensity_{i}": "operations per unique byte of the inner loops that hold "
        f"{i + 1}/{INTENSITIES} of all operations, {_LOG}"
        for i in range(INTENSITIES)
    }
    return found | _REST


_WORDS = _explained()

_PRINTED = "counts what index expressions and padding tests hold once TVM has simplified and printed them"
# Columns that are not computed from decisions, and why.
LEFT_OUT = dict.fromkeys(("int_add_sub", "int_mul", "int_div_mod", "int_cmp", "bool"), _PRINTED)


def columns() -> tuple[str, ...]:
    """The names, in TVM's order."""
    return tuple(_WORDS)


def explained(column: str) -> str:
    """What a column holds."""
    return _WORDS[column]
