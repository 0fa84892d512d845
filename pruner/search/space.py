"""The design space of a task as integer arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm.s_tir import SBlockRealize
from tvm.s_tir.schedule import Trace

from pruner.errors import ConfigError, RejectedError, UntunableError
from pruner.search.analysis import SketchAnalysis, UnsupportedSketch
from pruner.search.candidate import Candidate, RowCandidate
from pruner.search.materialise import Materialiser, tune_context
from pruner.search.nest import Nest
from pruner.search.operators import Operators
from pruner.search.population import UNUSED, Population
from pruner.search.prepare import prepare
from pruner.search.sampling import StagedSampler, gather_rows
from pruner.search.sketch import Sketch, signature_of
from pruner.search.tir_reader import read_nest
from pruner.workload import Task

_Answer = TypeVar("_Answer")
_Group = tuple[NDArray[np.int64], Nest]

# Nests of replayed rows that are kept.
_KEPT = 4096


class Space:
    """Every schedule MetaSchedule's sketches allow for a task.

    Rows of a sketch that arrays cannot express are replayed one by one; `slow_rows` counts them. Keys of rows
    of which a feature had to be read from the finished program are in `referred`; `checked` holds what was
    found out, once, about how a feature is read off a sketch's rows.
    """

    task: Task
    sketches: tuple[Sketch, ...]
    width: int  # columns of a decision row: the widest sketch

    def __init__(self, task: Task, sketches: Sequence[Sketch], materialiser: Materialiser) -> None:
        self.task = task
        self.sketches = tuple(sketches)
        self.width = max(sketch.width for sketch in self.sketches)
        self.materialiser = materialiser
        self.slow_rows = 0
        self.referred: set[bytes] = set()
        self.checked: dict[Hashable, bool] = {}
        self._slow_nests: dict[tuple[int, bytes], Nest | None] = {}
        self._analyses: list[SketchAnalysis | None] = []
        self._operators: list[Operators] = []
        self._samplers: list[StagedSampler | None] = []
        for sketch in self.sketches:
            analysis, operators = prepare(task, sketch)
            conditions = analysis.conditions if analysis is not None else None
            self._analyses.append(analysis)
            self._operators.append(operators)
            self._samplers.append(None if conditions is None else StagedSampler(operators, conditions))
        self.size = float(sum(operators.size for operators in self._operators))
        self._by_signature = {sketch.signature: i for i, sketch in enumerate(self.sketches)}
        self._gene_of_column = _gene_of_column(self.sketches, self.width)

    @classmethod
    def of(cls, task: Task) -> Space:
        """The task's space. Raises UntunableError when there is nothing to choose."""
        _require_work(task)
        context = tune_context(task)
        try:
            schedules = list(context.generate_design_space())
        except Exception as error:  # TVM's rules fail in their own ways on programs they were not made for
            raise UntunableError(
                f"{task.name} cannot be tuned: TVM's schedule rules fail on it ({error})."
            ) from error
        sketches = {sketch.signature: sketch for sketch in (Sketch.of(s.trace) for s in schedules)}
        if not sketches:
            raise UntunableError(f"{task.name} cannot be tuned: TVM's schedule rules make no sketch of it.")
        space = cls(task, tuple(sketches.values()), Materialiser(task, context))
        if space.width == 0:
            space._require_change()
        return space

    @classmethod
    def from_traces(cls, task: Task, traces: Iterable[Trace]) -> Space:
        """The space of the sketches that traces of any origin belong to: those of older databases and of
        other tools, which the default rules of this TVM may not make. Each must be the trace of a schedule of
        the task's module, so that its instructions are decided.

        Raises ConfigError when there is no trace, and UntunableError as `of` does."""
        _require_work(task)
        sketches = {sketch.signature: sketch for sketch in map(Sketch.of, traces)}
        if not sketches:
            raise ConfigError(f"a space of {task.name} is to be made from traces: give at least one.")
        return cls(task, tuple(sketches.values()), Materialiser(task))

    def count_anew(self) -> None:
        """Forgets `slow_rows` and `referred`: a run begins, and others may have used the space."""
        self.slow_rows = 0
        self.referred.clear()

    @property
    def supported(self) -> tuple[bool, ...]:
        """For each sketch, whether its decisions are evaluated as arrays."""
        return tuple(analysis is not None for analysis in self._analyses)

    def sample(self, n: int, rng: np.random.Generator) -> Population:
        """n random rows, resolved: sketches are equally likely, whatever their sizes."""
        sketch_ids = rng.integers(len(self.sketches), size=n)
        decisions = np.full((n, self.width), UNUSED, dtype=np.int64)
        for index, rows in self._by_sketch(sketch_ids):
            drawn = self._operators[index].sample(len(rows), rng)
            decisions[rows, : drawn.shape[1]] = self._resolved(index, drawn)
        return Population(self, sketch_ids, decisions)

    def sample_legal(self, n: int, rng: np.random.Generator) -> Population:
        """Up to n random rows that are legal, as `legal` has it, resolved; sketches are equally likely. Fewer
        where next to no row is legal, or where each must be replayed to find out."""
        sketch_ids = rng.integers(len(self.sketches), size=n)
        decisions = np.full((n, self.width), UNUSED, dtype=np.int64)
        found = np.zeros(n, dtype=bool)
        for index, rows in self._by_sketch(sketch_ids):
            legal = self._sample_legal(index, len(rows), rng)
            rows = rows[: len(legal)]
            decisions[rows, : legal.shape[1]] = legal
            found[rows] = True
        return Population(self, sketch_ids[found], decisions[found])

    def legal_of(self, sketch: int, n: int, rng: np.random.Generator) -> Population:
        """Up to n random legal rows of one sketch, resolved."""
        return self._population(sketch, self._sample_legal(sketch, n, rng))

    def mutate(self, parents: Population, rng: np.random.Generator) -> Population:
        """One changed decision a row: a factor moved between two tile levels, or a category or location
        redrawn. Resolved."""
        decisions = parents.decisions.copy()
        for index, rows in self._by_sketch(parents.sketch_ids):
            width = self.sketches[index].width
            changed = self._operators[index].mutate(decisions[rows, :width], rng)
            decisions[rows, :width] = self._resolved(index, changed)
        return Population(self, parents.sketch_ids, decisions)

    def crossover(self, mothers: Population, fathers: Population, rng: np.random.Generator) -> Population:
        """Each gene from one of two rows of the same sketch; a pair of two sketches gives the mother.
        Resolved."""
        n = len(mothers)
        genes = max(len(sketch.genes) for sketch in self.sketches)
        from_father = rng.random((n, max(genes, 1))) < 0.5
        from_father &= (mothers.sketch_ids == fathers.sketch_ids)[:, None]
        columns = np.take_along_axis(from_father, self._gene_of_column[mothers.sketch_ids], axis=1)
        decisions = np.where(columns, fathers.decisions, mothers.decisions)
        for index, rows in self._by_sketch(mothers.sketch_ids):
            width = self.sketches[index].width
            decisions[rows, :width] = self._resolved(index, decisions[rows, :width])
        return Population(self, mothers.sketch_ids, decisions)

    def enumerate(self, limit: int) -> Population | None:
        """All distinct rows, resolved, when there are at most `limit` before resolving; else None."""
        if self.size > limit:
            return None
        parts = []
        for index, operators in enumerate(self._operators):
            rows = self._resolved(index, operators.enumerate())
            parts.append(self._population(index, rows))
        return self.unique(Population.concat(parts))

    def unique(self, population: Population) -> Population:
        """The first occurrence of every distinct row, in order."""
        _, first = np.unique(population.hashes(), return_index=True)
        return population[np.sort(first)]

    def legal(self, population: Population) -> NDArray[np.bool_]:
        """Which rows TVM's post-processors will accept, as far as the decisions tell; of rows of unsupported
        sketches, which ones TVM's primitives accept."""
        legal = np.empty(len(population), dtype=bool)
        for index, rows in self._by_sketch(population.sketch_ids):
            legal[rows] = self._accepts(index, population.decisions[rows, : self.sketches[index].width])
        return legal

    def reasons(self, population: Population) -> dict[str, NDArray[np.bool_]]:
        """By reason, which rows `legal` refuses; a row may have several. `primitive`: a row of an unsupported
        sketch that TVM's primitives refuse."""
        reasons: dict[str, NDArray[np.bool_]] = {}
        for index, rows in self._by_sketch(population.sketch_ids):
            decisions = population.decisions[rows, : self.sketches[index].width]
            passes = self._analysed(index, SketchAnalysis.legal, decisions)
            if passes is None:
                replayed = [self._slow_nest(index, row) is not None for row in decisions]
                passes = {"primitive": np.array(replayed)}
            for reason, accepted in passes.items():
                refused = reasons.setdefault(reason, np.zeros(len(population), dtype=bool))
                refused[rows] = ~accepted
        return reasons

    def nests(
        self, population: Population, *, replayed: bool = True
    ) -> Iterator[tuple[NDArray[np.int64], Nest]]:
        """Groups of rows that share sketch and locations, with their nest before post-processing.
        Every row appears once; with `replayed=False` those of unsupported sketches are left out. Raises
        RejectedError when a row of an unsupported sketch is not legal."""
        for index, rows in self._by_sketch(population.sketch_ids):
            decisions = population.decisions[rows, : self.sketches[index].width]
            groups: Iterable[_Group] | None = self._analysed(index, _all_nests, decisions)
            if groups is None:
                groups = self._slow_groups(index, decisions) if replayed else ()
            for group, nest in groups:
                yield rows[group], nest

    def candidate(self, sketch_id: int, decisions: NDArray[np.int64]) -> Candidate:
        """The row as a candidate."""
        return RowCandidate(self, sketch_id, decisions)

    def encode(self, trace: Trace) -> Population:
        """The one row that the decided trace is, its decisions repaired as TVM repairs them. Raises
        ConfigError when it belongs to no sketch."""
        trace = trace.simplified(remove_postproc=True)
        index = self._by_signature.get(signature_of(trace))
        if index is None:
            raise ConfigError(
                f"the trace belongs to none of the {len(self.sketches)} sketches of {self.task.name} on this "
                "target; give one that MetaSchedule's default rules made for the same program and target."
            )
        row = self.sketches[index].row(trace)[None]
        if self.supported[index]:
            row = self._resolved(index, row)
        else:
            repaired = self.materialiser.replay(self.sketches[index].decided(row[0])).trace
            row = self.sketches[index].row(repaired.simplified(remove_postproc=True))[None]
        return self._population(index, row)

    def _accepts(self, index: int, decisions: NDArray[np.int64]) -> NDArray[np.bool_]:
        accepted = self._analysed(index, SketchAnalysis.accepts, decisions)
        if accepted is None:
            accepted = np.array([self._slow_nest(index, row) is not None for row in decisions], dtype=bool)
        return accepted

    def _sample_legal(self, index: int, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Up to n legal rows of one sketch."""
        if not self.supported[index]:
            return self._attempt(index, n, rng)
        staged = self._samplers[index] is not None
        return gather_rows(lambda drawn: self._attempt(index, drawn, rng), n, staged=staged)

    def _attempt(self, index: int, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The legal ones of n random rows of one sketch."""
        sampler = self._samplers[index]
        if sampler is not None:
            return sampler.attempt(n, rng)
        rows = self._resolved(index, self._operators[index].sample(n, rng))
        return rows[self._accepts(index, rows)]

    def _by_sketch(self, sketch_ids: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        for index in range(len(self.sketches)):
            rows = np.flatnonzero(sketch_ids == index)
            if len(rows):
                yield index, rows

    def _population(self, index: int, rows: NDArray[np.int64]) -> Population:
        decisions = np.full((len(rows), self.width), UNUSED, dtype=np.int64)
        decisions[:, : rows.shape[1]] = rows
        return Population(self, np.full(len(rows), index, dtype=np.int64), decisions)

    def _resolved(self, index: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        if len(rows) == 0:
            return rows
        resolved = self._analysed(index, SketchAnalysis.resolve, rows)
        return rows if resolved is None else resolved

    def _analysed(
        self,
        index: int,
        evaluate: Callable[[SketchAnalysis, NDArray[np.int64]], _Answer],
        rows: NDArray[np.int64],
    ) -> _Answer | None:
        """What the sketch's analysis says of the rows. None where it has none, or where rows take a compute
        location that it cannot express: from then on the sketch counts as unsupported."""
        analysis = self._analyses[index]
        if analysis is None:
            return None
        try:
            return evaluate(analysis, rows)
        except UnsupportedSketch:
            self._analyses[index] = None
            return None

    def _slow_groups(self, index: int, decisions: NDArray[np.int64]) -> Iterator[_Group]:
        for i, row in enumerate(decisions):
            nest = self._slow_nest(index, row)
            if nest is None:
                raise RejectedError(f"TVM's primitives refuse row {row.tolist()} of sketch {index}.")
            yield np.array([i]), nest

    def _slow_nest(self, index: int, row: NDArray[np.int64]) -> Nest | None:
        """The nest of a row that is replayed, None where a primitive refuses it. Legality, drafts and
        features ask for the same rows, so the last ones are kept."""
        key = index, row.tobytes()
        if key not in self._slow_nests:
            self.slow_rows += 1
            if len(self._slow_nests) >= _KEPT:
                self._slow_nests.clear()
            try:
                self._slow_nests[key] = read_nest(self.materialiser.replay(self.sketches[index].decided(row)))
            except RejectedError:
                self._slow_nests[key] = None
        return self._slow_nests[key]

    def _require_change(self) -> None:
        """A space without decisions is worth measuring only if its one program is not the untuned one."""
        try:
            made = self.materialiser.materialise(self.sketches[0].trace).mod
        except RejectedError as error:
            raise UntunableError(
                f"{self.task.name} cannot be tuned: its only schedule is refused ({error})."
            ) from error
        if tvm_ffi.structural_equal(made, self.task.mod):
            raise UntunableError(f"{self.task.name} cannot be tuned: TVM's schedule rules leave it as it is.")


def _all_nests(analysis: SketchAnalysis, decisions: NDArray[np.int64]) -> list[_Group]:
    return list(analysis.nests(decisions))


def _require_work(task: Task) -> None:
    if not isinstance(task.mod["main"].body, SBlockRealize):
        raise UntunableError(
            f"{task.name} cannot be tuned: it is not written in blocks, which schedules are made of. "
            "Write it with @T.prim_func(s_tir=True) and T.sblock, or make it with te.create_prim_func."
        )
    if any(loop.extent == 0 for statement in read_nest(task.mod).statements for loop in statement.loops):
        raise UntunableError(
            f"{task.name} cannot be tuned: a loop of it runs zero times, so there is nothing to do."
        )


def _gene_of_column(sketches: Sequence[Sketch], width: int) -> NDArray[np.int64]:
    """`sketches x width` int64: which gene a column belongs to; 0 in unused columns."""
    table = np.zeros((len(sketches), width), dtype=np.int64)
    for index, sketch in enumerate(sketches):
        for number, gene in enumerate(sketch.genes):
            table[index, gene.start : gene.start + gene.width] = number
    return table
