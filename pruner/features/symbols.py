"""The `symbols` features: one row of role-named numbers per candidate, for a whole population at once.

Columns name roles (register tile, reduction, outer loops, …), never single tile factors, so the width is the
same for every task and a model trained on one task can score another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.cpu import CpuInspection
from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection
from pruner.analyzer.inspection import Inspection, inspect
from pruner.analyzer.roles import ROLES
from pruner.analyzer.roofline import RooflineDraft
from pruner.analyzer.symbol import SymbolDraft
from pruner.analyzer.symbols import arithmetic
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.features.cpu_columns import cpu_columns
from pruner.features.gpu_columns import gpu_columns
from pruner.features.nests import nests
from pruner.features.symbols_columns import LOG, NANOSECONDS, PLAIN, explained
from pruner.search.candidate import Candidate
from pruner.search.population import Population

Floats = NDArray[np.float64]
Columns = dict[str, Floats]

# Seconds become nanoseconds before the logarithm, so that none rounds to zero.
_NS = 1e9


class SymbolFeatures(FeatureExtractor):
    """The main statement (the one with the most operations), the others together, and the drafts' terms.

    The same columns on a CPU and on a GPU; `features.gpu_columns` says which of its roles takes which place.
    Sizes, products and nanoseconds are `log2(1 + x)`; flags and shares are as they are.

    Args:
        device: whose levels, lanes and cores the numbers are taken against.
    """

    name = "symbols"
    version = 3
    rows = 1

    def __init__(self, *, device: Device) -> None:
        self.device = device
        self._roofline = RooflineDraft(device=device)
        self._symbol = SymbolDraft(device=device)

    @property
    def inputs(self) -> Mapping[str, object]:
        """All that a device says but what it is called and how it was found."""
        fields = asdict(self.device)
        return {name: fields[name] for name in fields if name not in ("name", "fingerprint", "notes")}

    def explain(self, column: str) -> str:
        written = PLAIN if _is_plain(column) else NANOSECONDS if column.endswith("seconds") else LOG
        return explained(column, self.device.kind) + written

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        n = len(candidates)
        table = {name: np.zeros(n) for name in self.columns}
        if n:
            self._fill(table, inspect(nests(candidates), self.device))
        values = np.column_stack([_scaled(name, table[name]) for name in self.columns])
        return FeatureBatch(
            values.astype(np.float32), np.arange(n + 1, dtype=np.int64), self.name, self.version
        )

    def _fill(self, table: Columns, statements: list[Inspection]) -> None:
        n = len(table["seconds"])
        table["seconds"] = self._roofline.together(statements, n)
        most, main_slot = np.zeros(n), np.full(n, np.iinfo(np.int64).max)
        for statement in statements:
            rows, slot = statement.batch.rows, statement.batch.slot
            amount = statement.instances * (1 + arithmetic(statement.batch.statement.ops))
            better = (amount > most[rows]) | ((amount == most[rows]) & (slot < main_slot[rows]))
            most[rows[better]] = amount[better]
            main_slot[rows[better]] = slot[better]
        for statement in statements:
            rows, slot = statement.batch.rows, statement.batch.slot
            main = slot == main_slot[rows]
            terms = self._roofline.terms(statement)
            launches = self._roofline.launches(statement)
            found = self._symbol.symbols(statement)
            np.add.at(table["symbol_seconds"], rows, self._symbol.latency(found))
            np.add.at(table["launch_seconds"], rows, launches)
            np.add.at(table["nests"], rows, (slot == statement.batch.nest).astype(float))
            traffic = main
            if isinstance(statement, GpuInspection):
                # What the main statement reads is fetched by others.
                traffic = np.full_like(main, bool(found.traffic))
            if traffic.any():
                run = np.min(found.runs, axis=0)[traffic]
                np.add.at(table["S5_traffic"], rows[traffic], np.sum(found.traffic, axis=0)[traffic])
                known = table["S7_run"][rows[traffic]]
                table["S7_run"][rows[traffic]] = np.where(known > 0, np.minimum(known, run), run)
            if main.any():
                shown = _main_columns(statement, self.device)
                shown |= {f"penalty_{name}": p for name, p in self._symbol.penalties(found).items()}
                shown |= {
                    "S1_register_bytes": found.register_bytes,
                    "S2_register_work": found.register_work,
                    "S3_private_bytes": found.private_bytes,
                    "S4_private_units": found.private_units,
                    "S8_operations": found.operations,
                    "core_seconds": terms.core,
                    "near_seconds": terms.near,
                    "far_seconds": terms.far,
                    "share": terms.share,
                }
                for name, column in shown.items():
                    table[name][rows[main]] = column[main]
            if not main.all():
                before = slot < main_slot[rows]
                shared = np.minimum(statement.batch.branch, 30)
                lanes = _lanes(statement)
                scalar: Floats = np.where(lanes <= 1, 1.0, 0.0)
                aside: Columns = {
                    "instances": statement.instances,
                    "core_seconds": terms.core,
                    "far_seconds": terms.near + terms.far,
                    "scalar": scalar,
                    "lanes": lanes,
                }
                for side, here in (("producers", before & ~main), ("consumers", ~before & ~main)):
                    np.add.at(table[f"{side}"], rows[here], 1.0)
                    for name, column in aside.items():
                        np.add.at(table[f"{side}_{name}"], rows[here], column[here])
                    np.maximum.at(table[f"{side}_depth"], rows[here], shared[here].astype(float))

    columns = (
        *("seconds", "symbol_seconds", "launch_seconds", "nests"),
        *(f"{role}_product" for role in ROLES),
        *(f"{role}_loops" for role in ROLES),
        *("innermost_spatial", "innermost_reduction"),
        *("chunks", "imbalance", "serial_outer", "parallel_loops", "vector_loops", "vector_lanes"),
        *("unroll", "unrolled_tile", "unrolled_reduction", "unrolled_wide", "straight"),
        *(
            "lanes",
            "vectors",
            "instances",
            "own_vector",
            "tile",
            "wide",
            "inner",
            "kept",
            "promoted",
            "chains",
        ),
        *("loads", "gathered", "spilled", "body"),
        *(f"bytes_in_{role}" for role in ROLES),
        *("largest_input_tile", "smallest_input_tile", "largest_input_step", "smallest_input_step"),
        *("output_tile", "output_step"),
        *("fetched_l1", "fetched_private", "fetched_shared", "fits_l1", "fits_private"),
        *("S1_register_bytes", "S2_register_work", "S3_private_bytes", "S4_private_units", "S5_traffic"),
        *("S7_run", "S8_operations", "data", "select"),
        *(f"penalty_{name}" for name in ("l0_memory", "l0_compute", "l1_memory", "l1_compute", "l2_compute")),
        *("core_seconds", "near_seconds", "far_seconds", "share"),
        *(
            f"{side}{name}"
            for side in ("producers", "consumers")
            for name in (
                *("", "_instances", "_core_seconds", "_far_seconds", "_scalar", "_lanes"),
                "_depth",
            )
        ),
    )


# Columns that are flags, shares or small counts.
_PLAIN = frozenset(
    (
        *("nests", "parallel_loops", "vector_loops", "imbalance", "share", "straight", "own_vector"),
        *("promoted", "loads", "gathered", "spilled", "select", "fits_l1", "fits_private"),
        *("unrolled_tile", "unrolled_reduction", "unrolled_wide", "producers", "consumers"),
    )
)


def _is_plain(name: str) -> bool:
    return name in _PLAIN or name.endswith(("_loops", "_depth", "_scalar")) or "penalty" in name


def _scaled(name: str, column: Floats) -> Floats:
    if _is_plain(name):
        return column
    scale = _NS if name.endswith("seconds") else 1.0
    return np.log2(1.0 + scale * column)


def _main_columns(statement: Inspection, device: Device) -> Columns:
    if isinstance(statement, GpuInspection):
        return gpu_columns(statement, device)
    assert isinstance(statement, CpuInspection)  # there are no other kinds
    return cpu_columns(statement, device)


def _lanes(statement: Inspection) -> Floats:
    """Elements that an instruction of a statement works on: of a vector, or of a fetch by one thread."""
    if isinstance(statement, GpuInspection):
        return np.maximum(statement.lanes, 1.0)
    assert isinstance(statement, CpuInspection)  # as above
    return statement.tile.lanes
