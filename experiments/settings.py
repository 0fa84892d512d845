"""Settings of a study: plain `key=value` arguments over experiments/conf/STUDY.yaml, composed by Hydra.

A study is `python -m experiments.STUDY key=value ...`; where its default is a list, so is its setting, and a
single value stands for a list of one: `workload=[C2D/1,GMM/2] seed=[0,1]`, `workload=GMM/2`. With
`--multirun` it is a job for every combination of values with commas between them, each in a folder of its
own; with `hydra/launcher=joblib` jobs that time nothing run side by side, `hydra.launcher.n_jobs` at a time.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from pruner.cli import BAD_INPUT, INTERRUPTED
from pruner.config import combinations, did_you_mean, explained, parse
from pruner.cores import usable_cpus
from pruner.errors import ConfigError, PrunerError
from pruner.interrupt import terminated_like_interrupted
from pruner.stream import LastingStream

CONF = Path(__file__).parent / "conf"

_MULTIRUN = ("-m", "--multirun")
_LAUNCHER, _N_JOBS = "hydra/launcher", "hydra.launcher.n_jobs"
_WORDS = {int: "a whole number", float: "a number", str: "a name", bool: "true or false"}


def settings(study: str, arguments: Sequence[str]) -> DictConfig:
    """The checked settings of a study, everything resolved. `work_dir` is Hydra's run folder
    (outputs/DATE/TIME) unless it is given.

    A value must be of its default's kind; where the default is null, a name or null. Lists have no value
    twice; whether one may be empty, and what its values must be, is for the study to say. A mapping in the
    file of defaults is the study's own and no setting.

    Raises ConfigError, naming what is accepted, for whatever cannot be used as given.
    """
    defaults = {key: value for key, value in _defaults(study).items() if not isinstance(value, dict)}
    for item in parse(arguments):
        key = item.key_or_group
        if key == "hydra.run.dir":
            continue
        if item.is_delete() or item.is_add() or item.is_force_add() or item.package is not None:
            raise ConfigError(f"Write {key}=VALUE in place of '{item.input_line}'.")
        if key not in defaults:
            hint = f"{did_you_mean(key, list(defaults))} Accepted: {', '.join(defaults)}."
            raise ConfigError(
                f"Unknown setting '{key}'.{hint} `python -m experiments.{study} --help` explains them."
            )
        if item.is_sweep_override():
            raise ConfigError(f"'{item.input_line}': give several values as a list, {key}=[VALUE,VALUE].")
        if isinstance(item.value(), dict):
            raise ConfigError(f"'{item.input_line}': give plain values, not a mapping.")
    cfg = _composed(study, arguments)
    given: Any = OmegaConf.to_container(cfg)
    for key, default in defaults.items():
        cfg[key] = _checked(key, given[key], default)
    return cfg


def check_filled(cfg: DictConfig, *keys: str) -> None:
    """Raises ConfigError for the first of these lists that is empty."""
    for key in keys:
        if not cfg[key]:
            raise ConfigError(f"{key}=[] is empty: give at least one.")


def main(
    study: str,
    work: Callable[[DictConfig], None],
    arguments: Sequence[str] | None = None,
    *,
    times: Callable[[DictConfig], bool] = lambda cfg: True,
) -> int:
    """A study's command: composes its settings, does the work, prints the run folder last; returns the exit
    code. Bad input is one message on stderr and 2. With --multirun the work is done for every job.

    times: whether a job times anything on this machine, so that no other may run beside it. The work finds in
    `beside` how many jobs run at a time.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--help" in words or "-h" in words:
        sys.stdout.write(usage(study))
        return 0
    new: list[Path] = []
    goes_on = ""
    try:
        jobs = [word for word in words if word not in _MULTIRUN]
        beside, jobs = _launcher(jobs, several=len(jobs) < len(words))
        folder, configs = _jobs(study, jobs, several=len(jobs) < len(words))
        beside = min(beside, len(configs))
        if beside > 1 and any(map(times, configs)):
            raise ConfigError(
                f"{_LAUNCHER}=joblib: jobs that time programs on this machine cannot run side by side, as "
                "they would share its cores. Leave it out."
            )
        shared = [cfg.blocks for cfg in configs if cfg.get("blocks") is not None]
        if beside > 1 and len(set(shared)) < len(shared):
            raise ConfigError(
                f"{_LAUNCHER}=joblib: jobs that run side by side cannot share blocks={shared[0]}. Leave "
                "blocks out, or leave joblib out."
            )
        if any("blocks" in cfg and cfg.blocks is None for cfg in configs):
            goes_on = f"; what is finished stays: the same command with work_dir={folder} goes on from there"
        new = [path for path in (*(Path(cfg.work_dir) for cfg in configs), folder) if not path.exists()]
        # A study of an hour does not end because nobody reads on.
        with terminated_like_interrupted(), redirect_stdout(LastingStream(sys.stdout)):
            _work(work, configs, beside)
            print(folder, flush=True)
    except (PrunerError, OSError) as error:
        sys.stderr.write(f"{study}: {_said(error)}\n")
        with suppress(OSError):  # something is in it
            for path in new:
                path.rmdir()
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write(f"{study}: interrupted{goes_on}\n")
        return INTERRUPTED
    return 0


def _work(work: Callable[[DictConfig], None], configs: Sequence[DictConfig], beside: int) -> None:
    """The work of all jobs, so many at a time."""
    for cfg in configs:
        make_folder("work_dir", Path(cfg.work_dir))
        with open_dict(cfg):
            cfg.beside = beside
    if beside == 1:
        for cfg in configs:
            work(cfg)
        return
    from joblib import Parallel, delayed

    Parallel(n_jobs=beside)(delayed(work)(cfg) for cfg in configs)


def _launcher(words: Sequence[str], several: bool) -> tuple[int, list[str]]:
    """How many jobs run at a time, and the words that do not say so. Raises ConfigError."""
    said = {
        key: word.partition("=")[2]
        for word in words
        if (key := word.partition("=")[0]) in (_LAUNCHER, _N_JOBS)
    }
    others = [word for word in words if word.partition("=")[0] not in said]
    if not said:
        return 1, others
    launcher, given = said.get(_LAUNCHER), said.get(_N_JOBS, "-1")
    if launcher != "joblib" or not several:
        raise ConfigError(
            f"{' '.join(words)}: accepted is {_LAUNCHER}=joblib, with {_N_JOBS}=NUMBER if you like, together "
            "with --multirun."
        )
    if importlib.util.find_spec("joblib") is None:
        raise ConfigError(f"{_LAUNCHER}=joblib needs joblib: pip install joblib, or leave it out.")
    cores = len(usable_cpus())
    if given != "-1" and not (given.isdigit() and 1 <= int(given) <= cores):
        raise ConfigError(
            f"{_N_JOBS}={given} is not accepted: give a whole number from 1 to {cores}, or -1 for all."
        )
    return cores if given == "-1" else int(given), others


def _jobs(study: str, words: Sequence[str], several: bool) -> tuple[Path, list[DictConfig]]:
    """The folder that a command is about, and the settings of its jobs; those of several have a numbered
    folder each in it. All are checked before the first is returned."""
    if not several:
        cfg = settings(study, words)
        return Path(cfg.work_dir), [cfg]
    items = [item for item in parse(words) if item.key_or_group not in ("work_dir", "hydra.run.dir")]
    given = [item.value() for item in parse(words) if item.key_or_group in ("work_dir", "hydra.run.dir")]
    folder = Path(str(given[-1])) if given else Path(time.strftime("multirun/%Y-%m-%d/%H-%M-%S"))
    configs = [settings(study, job) for job in combinations(items)]
    for number, cfg in enumerate(configs):
        cfg.work_dir = str(folder / str(number))
    return folder, configs


def _said(error: PrunerError | OSError) -> str:
    """The message; of a file that cannot be read or written, which one and why."""
    if isinstance(error, PrunerError):
        return str(error)
    return f"{error.filename or 'a file'}: {error.strerror}. Make room there, or choose another folder."


def usage(study: str) -> str:
    """What --help shows: the study's file of defaults, its comments included."""
    text = (CONF / f"{study}.yaml").read_text("utf-8").rstrip()
    shown = "\n".join(
        f"  {line}".rstrip() for line in text.replace("${hydra:run.dir}", "outputs/DATE/TIME").splitlines()
    )
    return (
        f"usage: python -m experiments.{study} [key=value ...]\n\nsettings, with their defaults:\n{shown}\n"
    )


def _defaults(study: str) -> dict[str, Any]:
    loaded: Any = OmegaConf.to_container(OmegaConf.load(CONF / f"{study}.yaml"), resolve=False)
    return {str(key): value for key, value in loaded.items()}


def _composed(study: str, arguments: Sequence[str]) -> DictConfig:
    try:
        items = parse(arguments)
        with initialize_config_dir(str(CONF), version_base="1.3", job_name=study):
            lines = [str(item.input_line) for item in items if item.key_or_group.startswith("hydra.")]
            cfg = compose(study, overrides=lines, return_hydra_config=True)
        HydraConfig.instance().set_config(cfg)
        with open_dict(cfg):
            found = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
        # Hydra would take a setting that is called as a folder of CONF is for the choice of a file in it.
        for item in items:
            if item.key_or_group in found:
                found[item.key_or_group] = item.value()
        OmegaConf.resolve(found)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explained(error)) from error
    return found


def _checked(key: str, value: object, default: object) -> object:
    """The value, in a list where the default is one. Raises ConfigError when it is of another kind."""
    if isinstance(default, list):
        values = value if isinstance(value, list) else [value]
        kind = type(default[0]) if default else str
        if kind is str:  # a task may be called 3
            values = [str(one) if type(one) is int else one for one in values]
        for one in values:
            # An opening bracket inside a text is a list that could not be read.
            if not _is(one, kind) or (isinstance(one, str) and (one.startswith("[") or not one.strip())):
                raise ConfigError(
                    f"{key}={value} is not accepted: give a list, {key}=[VALUE,VALUE], each of it "
                    f"{_WORDS[kind]}."
                )
        twice = [one for i, one in enumerate(values) if one in values[:i]]
        if twice:
            raise ConfigError(f"{key} lists {twice[0]} twice. Give each value once.")
        return values
    kind = type(default) if default is not None else str
    if value is None and default is None:
        return None
    if not _is(value, kind) or value == "":
        raise ConfigError(f"{key}={value} is not accepted: give {_WORDS[kind]}.")
    return value


def _is(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def make_folder(setting: str, folder: Path) -> None:
    """Raises ConfigError, naming the setting that it comes from, where there can be no such folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{setting}={folder} cannot be used: {error.strerror}. Choose another folder."
        ) from error
