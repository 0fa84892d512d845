"""The columns of the `symbols` features that describe one statement of a CPU program."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.cpu import CpuInspection
from pruner.analyzer.device import Device
from pruner.analyzer.inspection import Inspection
from pruner.analyzer.roles import ROLES

Floats = NDArray[np.float64]
Columns = dict[str, Floats]


def cpu_columns(statement: CpuInspection, device: Device) -> Columns:
    """The columns that describe the main statement, float64[m] each."""
    extents, tile, code, batch = statement.extents, statement.tile, statement.code, statement.batch
    touched, m = statement.touched, len(batch)
    columns: Columns = {}
    position = len(extents)
    sizes = [access.buffer.itemsize for access in touched.accesses]
    for role in reversed(ROLES):
        span = statement.roles.span(role, statement.loops)
        columns[f"{role}_product"] = np.prod(extents[span], axis=0)
        columns[f"{role}_loops"] = (extents[span] > 1).sum(axis=0).astype(float)
        position -= len(span)
        columns[f"bytes_in_{role}"] = touched.lines[position]
        if role in ("S3", "S2"):
            name = "tile" if role == "S3" else "step"
            bytes_ = [e[position] * size for e, size in zip(touched.elements, sizes, strict=True)]
            inputs = bytes_[: touched.operands] or [np.zeros(m)]
            columns[f"largest_input_{name}"] = np.max(inputs, axis=0)
            columns[f"smallest_input_{name}"] = np.min(inputs, axis=0)
            columns[f"output_{name}"] = bytes_[-1]
    columns["innermost_spatial"] = innermost(statement, reduction=False)
    columns["innermost_reduction"] = innermost(statement, reduction=True)
    chunks = code.chunks.astype(float)
    flags = {"unrolled_tile": 0, "unrolled_reduction": 1, "unrolled_wide": 2}
    caches = {"l1": device.levels[1], "private": device.private, "shared": device.levels[-2]}
    columns |= {
        "chunks": chunks,
        "imbalance": np.ceil(chunks / device.cores) * device.cores / chunks,
        "serial_outer": np.maximum(columns["outer_product"] / chunks, 1.0),
        "parallel_loops": code.parallel_loops.astype(float),
        "vector_loops": code.vector_loops.astype(float),
        "vector_lanes": code.lanes.astype(float),
        "unroll": np.where(batch.unrolls, batch.unroll, 0).astype(float),
        "straight": tile.straight.astype(float),
        "own_vector": tile.own.astype(float),
        "promoted": tile.promoted.astype(float),
        "data": batch.data.astype(float),
        "select": np.full(m, float(bool(batch.statement.ops.get("select")))),
        "fits_l1": (touched.lines[0] <= caches["l1"].capacity).astype(float),
        "fits_private": (touched.lines[0] <= caches["private"].capacity).astype(float),
    }
    columns |= {name: tile.unrolled[i].astype(float) for name, i in flags.items()}
    columns |= {f"fetched_{name}": touched.traffic(level.capacity) for name, level in caches.items()}
    for name in ("lanes", "vectors", "instances", "tile", "wide", "inner", "kept", "chains"):
        columns[name] = getattr(tile, name)
    for name in ("loads", "gathered", "spilled", "body"):
        columns[name] = getattr(tile, name)
    return columns


def innermost(statement: Inspection, *, reduction: bool) -> Floats:
    """The extent of the innermost loop of a kind that has more than one iteration; 1 without one."""
    found = np.ones(len(statement.batch))
    for loop, extent in zip(statement.loops, statement.extents, strict=True):
        if (loop in statement.batch.statement.reduces) == reduction:
            found = np.where(extent > 1, extent, found)
    return found
