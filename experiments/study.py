"""The engine of studies of arms: blocks of them, resumable, every arm's incumbents timed again.

A block is one workload and one seed: all its arms in turn on one machine, then the programs they held best,
all in turn in the same processes. After every arm the block is saved, so that a study goes
on where it was stopped. A finished block is kept, wherever it was made; a further arm is added to it, and the
programs of all its arms are timed again then. A block that lacks something and was made on another machine is
made anew, because what its arms did there cannot be compared with what others do here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.arm import Arm, ArmError, ArmRun, read_run
from experiments.block import ArmResult, Block
from experiments.curves import digest, incumbents
from experiments.output import commit, say
from experiments.place import Place, Program
from pruner.errors import ConfigError
from pruner.report import latency


@dataclass(frozen=True)
class Study:
    """What the blocks of a study have in common.

    trials: of every arm. overrides: of `pruner tune`, for all arms and the timing at the end of a block.
    folder: of the blocks; the arms' own folders are in `folder/runs`. machine: the fingerprint of where this
    runs. say: shows a line of progress. place_of: where a workload is tuned. beside: how many such studies
    run at a time, whose seconds say nothing where there are several.
    """

    trials: int
    overrides: tuple[str, ...]
    folder: Path
    machine: str
    say: Callable[[str], None]
    place_of: Callable[[str], Place]
    beside: int = 1

    def block(self, workload: str, seed: int, arms: Sequence[Arm]) -> Block:
        """The block with these arms, as far as they succeed: what is missing is made. Arms that failed before
        are tried again. Raises what `check` raises."""
        place = self.place_of(workload)
        block, path = self._stored(place, workload, seed, arms)
        if block.finished(arms):
            self.say(f"{workload} seed {seed}  kept")
            return block
        if block.machine != self.machine:
            aside = path.replace(path.with_suffix(".json.old"))
            self.say(
                f"{workload} seed {seed}  not finished, and begun on another machine: made anew; what there "
                f"was is {aside}"
            )
            block = self._fresh(place, workload, seed)
        missing = [
            arm for arm in arms if arm.name not in block.arms or block.arms[arm.name].error is not None
        ]
        self.say(f"{workload} seed {seed}  to run: {', '.join(arm.name for arm in missing) or 'nothing'}")
        for arm in missing:
            self._run(block, arm, place)
            block.save(path)
        # Where all that were missing failed again, the times of the others stand.
        if block.ended != block.timed:
            self._retime(block, place)
            block.save(path)
        return block

    def check(self, workload: str, seed: int, arms: Sequence[Arm]) -> None:
        """Raises what would stop `block` before it runs anything: a wrong workload, wrong overrides, a folder
        that holds the blocks of another study."""
        self._stored(self.place_of(workload), workload, seed, arms)

    def _fresh(self, place: Place, workload: str, seed: int) -> Block:
        """The block before anything is done."""
        settings = {"trials": self.trials, "overrides": list(self.overrides), **place.settings}
        return Block(workload, seed, settings, self.machine, best_s=place.best_s, beside=self.beside)

    def _stored(self, place: Place, workload: str, seed: int, arms: Sequence[Arm]) -> tuple[Block, Path]:
        """The block as far as it is there, and its file."""
        fresh = self._fresh(place, workload, seed)
        path = self.folder / f"{fresh.name}.json"
        if not path.exists():
            return fresh, path
        stored = Block.load(path)
        fresh.check(stored, path)
        for arm in arms:
            stored.check_arm(arm, path)
        return stored, path

    def _run(self, block: Block, arm: Arm, place: Place) -> None:
        """Runs an arm and takes what is kept of it into the block."""
        where = f"{block.workload} seed {block.seed}  {arm.name}"
        result = block.arms[arm.name] = ArmResult(arm.described, commit())
        overrides = [
            f"workload={block.workload}",
            f"seed={block.seed}",
            f"trials={self.trials}",
            *place.overrides,
            *self.overrides,
        ]
        try:
            run = place.run(arm, overrides, self._runs(block, arm.name))
        except ArmError as error:
            result.error = str(error)
            self.say(f"{where}  FAILED: {error}")
            return
        result.seconds, result.notes = run.seconds, list(run.notes)
        block.beside = max(block.beside, self.beside)
        self._keep(block, arm.name, run, place)
        best = run.contents.best()
        found = f"{run.seconds['total']:.1f} s  {result.trials} trials"
        how = "by its own timing" if place.times_again else "recorded"
        self.say(f"{where}  {found}  {latency(best.latency_s if best else None)} {how}")

    def _keep(self, block: Block, name: str, run: ArmRun, place: Place) -> None:
        """The run's counts and incumbents, those that were found not to count left out."""
        result, contents = block.arms[name], run.contents
        result.trials = len(contents.trials)
        result.failures = dict(
            Counter(trial.failure for trial in contents.trials if trial.failure is not None)
        )
        result.held = incumbents(contents, run.seconds["total"], block.refused())
        held = {one.program for one in result.held}
        for trial in contents.trials:
            if (program := digest(trial.trace)) in held:
                block.traces[program] = trial.trace if place.times_again else []

    def _retime(self, block: Block, place: Place) -> None:
        """Times all incumbents in turn. Where one does not count, what its arm held best instead takes its
        place, and all are timed in turn once more."""
        done = block.ended
        block.retimed = {}
        while block.programs(done) - set(block.retimed):
            programs = block.programs(done)
            if place.times_again:
                self.say(
                    f"{block.workload} seed {block.seed}  timing {len(programs)} programs again, in turn"
                )
            own_s = {one.program: one.own_s for name in done for one in block.arms[name].held}
            timings = place.retime({name: Program(block.traces[name], own_s[name]) for name in programs})
            block.retimed |= timings.programs
            block.untuned_s = timings.untuned_s
            for name in done:
                self._replace_refused(block, name, place)
        block.traces = {program: block.traces[program] for program in block.programs(done)}
        block.timed = done

    def _replace_refused(self, block: Block, name: str, place: Place) -> None:
        """Leaves programs that do not count out of an arm's incumbents. What took their place is in the arm's
        journal; where that is gone, the incumbent before them stands longer."""
        refused = block.refused()
        result = block.arms[name]
        if refused.isdisjoint(block.programs([name])):
            return
        kinds = sorted({str(block.retimed[p].failure) for p in refused & block.programs([name])})
        self.say(
            f"{block.workload} seed {block.seed}  {name} held programs that do not count ({', '.join(kinds)})"
        )
        try:
            self._keep(block, name, read_run(self._runs(block, name)), place)
        except ArmError:
            result.held = [one for one in result.held if one.program not in refused]

    def _runs(self, block: Block, name: str) -> Path:
        return self.folder / "runs" / block.name / name


def tell_failed(blocks: Sequence[Block]) -> None:
    """Shows which arms failed. Raises ConfigError where all of them did, of which no table can be made."""
    for block in blocks:
        for arm, error in block.failed.items():
            say(f"{block.workload} seed {block.seed}  {arm} FAILED; the same command tries it again: {error}")
    if not any(block.ended for block in blocks):
        raise ConfigError("no arm ended well, so there is no table: mend what is told of them above.")
