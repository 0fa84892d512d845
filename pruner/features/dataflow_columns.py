"""The columns of the dataflow features, and what they hold in plain words."""

from __future__ import annotations

_LOG = ", log2(1 + x)"

EXPLAINED = {
    "operations": f"operations of all executions of the statement{_LOG}",
    "global": "1 where the buffer is in memory",
    "shared": "1 where it is in shared memory, or on a CPU in a stage inside loops",
    "local": "1 where it is in registers",
    "is_read": "1 where the statement only reads it",
    "is_write": "1 where the statement only writes it",
    "is_read_write": "1 where the statement reads and writes it",
    "bytes": f"bytes moved in all{_LOG}",
    "unique_bytes": f"bytes of different elements touched{_LOG}",
    "lines": f"cache lines moved in all{_LOG}",
    "unique_lines": f"different cache lines touched{_LOG}",
    "reuse_in_loop": "1 where a loop touches the same elements again",
    "reuse_in_sequence": "1 where an earlier statement of the same loops touched it",
    "reuse_none": "1 where nothing is used again",
    "reuse_distance_iterations": f"iterations until an element is used again{_LOG}",
    "reuse_distance_bytes": f"bytes touched until an element is used again{_LOG}",
    "reuse_count": f"how often an element is used again{_LOG}",
    "bytes_per_reuse": f"bytes over the reuse count (1/2 where there is none){_LOG}",
    "unique_bytes_per_reuse": f"unique bytes over the reuse count (1/2 where there is none){_LOG}",
    "lines_per_reuse": f"lines over the reuse count (1/2 where there is none){_LOG}",
    "unique_lines_per_reuse": f"unique lines over the reuse count (1/2 where there is none){_LOG}",
    "stride": f"elements that an iteration of the innermost loop moves it{_LOG}",
    "allocated": f"bytes allocated for it; 0 for an argument of the function{_LOG}",
}
