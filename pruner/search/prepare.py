"""What a sketch needs before its first draft: its analysis, and operators that know its compute locations."""

from __future__ import annotations

import numpy as np

from pruner.search.analysis import SketchAnalysis, UnsupportedSketch
from pruner.search.operators import FIRST_LOCATION, Operators
from pruner.search.sketch import LocationGene, Sketch
from pruner.workload import Task

# Rows with random compute locations that show, when a space is made, which locations are valid how often.
_PROBES = 1024
# The largest loop index that is tried.
_DEEPEST = 31
# What a location weighs that no probe found valid: rare, not impossible.
_RARE = 0.01


def prepare(task: Task, sketch: Sketch) -> tuple[SketchAnalysis | None, Operators]:
    """A sketch's analysis, None where arrays cannot express it, and its operators.

    An invalid location means the next valid one below it, so drawing from all alike would favour what lies
    under many invalid ones: each is drawn as often as it is valid in rows of the sketch.
    """
    columns = [gene.start for gene in sketch.genes if isinstance(gene, LocationGene)]
    values = np.arange(FIRST_LOCATION, _DEEPEST + 1)
    operators = Operators(sketch, [np.ones(len(values))] * len(columns))
    probes = operators.sample(_PROBES if columns else 1, np.random.default_rng(0))
    try:
        analysis = SketchAnalysis(task.mod, sketch, task.target)
        resolved = analysis.resolve(probes)
        # Programs that the probes reach are analysed now, before the first draft.
        for _ in analysis.nests(resolved):
            pass
    except UnsupportedSketch:
        return None, operators
    weights = []
    for column in columns:
        drawn = np.bincount(probes[:, column] - FIRST_LOCATION, minlength=len(values))
        valid = probes[:, column] == resolved[:, column]
        kept = np.bincount(probes[valid, column] - FIRST_LOCATION, minlength=len(values))
        deepest = int(resolved[:, column].max())
        weights.append((kept / np.maximum(drawn, 1) + _RARE)[: deepest - FIRST_LOCATION + 1])
    return analysis, Operators(sketch, weights)
