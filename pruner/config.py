"""Settings: Hydra's groups composed into one config, and components made from it.

Nothing here imports TVM, so that a bad setting is refused at once, and nothing is written to disk.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import (
    HydraException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from hydra.utils import instantiate as hydra_instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from pruner.errors import ConfigError
from pruner.faults import faults_told
from pruner.settings import accepted, check_types, whole

CONF = Path(__file__).parent / "conf"

# The group whose options choose options of the others; it leaves nothing of its own in the settings.
PRESETS = "experiment"

# Values of these are text: what Hydra's grammar cannot read (JSON, brackets in a path) is taken as it stands.
TEXT_KEYS = ("workload", "data", "target", "work_dir", "measure.recorded")


# The class of measure=replay, which alone needs `data`.
REPLAY = "pruner.measure.replay.ReplayMeasurer"


def groups() -> dict[str, list[str]]:
    """The groups and the options that ship with the package."""
    folders = sorted(path for path in CONF.iterdir() if path.is_dir())
    return {folder.name: sorted(option.stem for option in folder.glob("*.yaml")) for folder in folders}


def compose(overrides: Sequence[str] = (), config_dir: str | None = None) -> DictConfig:
    """The checked settings of one run, everything resolved.

    Args:
        overrides: `key=value` and `group=option`, as on the command line.
        config_dir: a folder with further options, DIR/verifier/mine.yaml for `verifier=mine`.

    Raises ConfigError, naming what is accepted, for whatever cannot be used as given.
    """
    return _compose([*overrides], config_dir, job=0, sweep=False)


def combinations(items: Sequence[Override]) -> list[list[str]]:
    """The overrides of every job of a sweep: one value of each that lists several, in all combinations."""
    choices = [
        [f"{item.get_key_element()}={value}" for value in item.sweep_string_iterator()]
        if item.is_discrete_sweep()
        else [str(item.input_line)]
        for item in items
    ]
    return [list(job) for job in itertools.product(*choices)]


def compose_sweep(overrides: Sequence[str], config_dir: str | None = None) -> list[DictConfig]:
    """One config per combination of the overrides that list several values (`seed=0,1 search=latent,random`),
    each with its own work_dir below Hydra's sweep folder. All are checked before the first is returned."""
    jobs = combinations(parse(overrides))
    configs = [_compose(job, config_dir, number, sweep=True) for number, job in enumerate(jobs)]
    if len({cfg.work_dir for cfg in configs}) < len(configs):
        raise ConfigError(
            f"work_dir={configs[0].work_dir} is given to {len(configs)} runs; each needs its own. Leave it "
            "out: each then has a folder of its own."
        )
    return configs


def instantiate(cfg: DictConfig | Mapping[str, Any], **runtime: Any) -> Any:
    """The component that a group describes: its `_target_`, called with its settings and `runtime`.

    By family, `runtime` is: draft `device`; verifier and adapt `seed`; measure `task`, `threads` and, of a
    replay, `pool`; else none. What a class of the user's own does not take is left out.
    Hydra would take dataclasses among the arguments for configs, so they are passed after it is done.

    Raises ConfigError when the class cannot be imported or does not take the settings.
    """
    factory = imported(cfg)
    if unwritten := getattr(factory.func, "__abstractmethods__", None):
        raise ConfigError(
            f"{cfg['_target_']} lacks {', '.join(sorted(unwritten))}: its base class asks for it. Write it."
        )
    names = accepted(factory.func)
    if names is not None:
        runtime = {name: value for name, value in runtime.items() if name in names}
    try:
        inspect.signature(factory.func).bind(**{**factory.keywords, **runtime})
        if names is not None and (unknown := sorted(set(factory.keywords).difference(names))):
            raise TypeError(f"got an unexpected keyword argument '{unknown[0]}'")
    except TypeError as error:
        listed = ", ".join(names or ())
        raise ConfigError(
            f"{cfg['_target_']} cannot be made from its settings: {error}. "
            f"It takes: {listed or 'nothing'}; "
            f"it is given: {', '.join([*factory.keywords, *runtime]) or 'nothing'}."
        ) from error
    check_types(factory.func, factory.keywords)
    with faults_told(f"making {cfg['_target_']}", factory.func):
        return factory(**runtime)


def imported(cfg: DictConfig | Mapping[str, Any]) -> functools.partial[Any]:
    """What a group describes, not yet made: `func` is its class, `keywords` are its settings.

    Raises ConfigError when the class cannot be imported.
    """
    plain = OmegaConf.to_container(cfg, resolve=True) if isinstance(cfg, DictConfig) else cfg
    assert isinstance(plain, Mapping)
    settings = {str(key): value for key, value in plain.items()}
    try:
        factory: functools.partial[Any] = hydra_instantiate(settings, _partial_=True, _convert_="all")
    except (InstantiationException, OmegaConfBaseException) as error:
        raise ConfigError(_unwrapped(error, settings)) from error
    return factory


def _compose(overrides: list[str], config_dir: str | None, job: int, sweep: bool) -> DictConfig:
    overrides = _normalised(overrides)
    if config_dir is not None:
        folder = Path(config_dir).resolve()
        if not folder.is_dir():
            raise ConfigError(
                f"--config-dir {config_dir}: no such folder. Give one that holds GROUP/NAME.yaml."
            )
        overrides.append(f"hydra.searchpath=[{_quoted(f'file://{folder}')}]")
    if sweep:
        overrides.append(f"hydra.job.num={job}")
    try:
        with initialize_config_dir(str(CONF), version_base="1.3", job_name="pruner"):
            cfg = hydra_compose("config", overrides=overrides, return_hydra_config=True)
        HydraConfig.instance().set_config(cfg)
        if sweep and OmegaConf.to_container(cfg)["work_dir"] == "${hydra:run.dir}":  # type: ignore[index, call-overload]
            cfg.work_dir = f"{cfg.hydra.sweep.dir}/{cfg.hydra.sweep.subdir}"
        with open_dict(cfg):
            settings = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
        OmegaConf.resolve(settings)
    except MissingConfigException as error:
        raise ConfigError(_unknown_option(error, config_dir)) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explained(error)) from error
    _check(settings)
    return settings


def _normalised(overrides: Sequence[str]) -> list[str]:
    """Text values quoted where they must be; settings of a `custom` component allowed whatever their name."""
    parsed = parse(overrides)
    custom = {item.key_or_group for item in parsed if item.value() == "custom"}
    known = groups()
    lines = []
    for item in parsed:
        group = item.key_or_group
        chooses = group in known and not item.is_delete() and not item.is_sweep_override()
        if chooses and not isinstance(item.value(), str):
            raise ConfigError(
                f"{item.input_line}: give the name of one {group}, out of {', '.join(known[group])}."
            )
        line = str(item.input_line)
        if "." in group and group.split(".")[0] in custom and line[0] not in "+~":
            line = f"++{line}"
        lines.append(line)
    return lines


def parse(overrides: Sequence[str]) -> list[Override]:
    """The arguments as Hydra reads them. Raises ConfigError for one that cannot be read."""
    parser = OverridesParser.create()
    parsed = []
    for line in overrides:
        key, equals, value = line.partition("=")
        try:
            item = parser.parse_overrides([line])[0]
            if key in TEXT_KEYS and isinstance(item.value(), (bool, int, float)):
                item = parser.parse_overrides([f"{key}={_quoted(value)}"])[0]
        except OverrideParseException as error:
            if not (equals and key in TEXT_KEYS):
                raise ConfigError(
                    f"Cannot read the argument '{line}'. Expected key=value or group=option, for example "
                    f"trials=60 or verifier=random; quote a value with special characters: \"key='value'\"."
                ) from error
            item = parser.parse_overrides([f"{key}={_quoted(value)}"])[0]
        parsed.append(item)
    return parsed


def _quoted(text: str) -> str:
    """The text as a quoted string of Hydra's grammar; its interpolations are left as plain text."""
    escaped = text.replace("\\'", "\\\\'").replace("'", "\\'").replace("${", "\\${")
    return f"'{escaped}'"


def _unknown_option(error: MissingConfigException, config_dir: str | None) -> str:
    group, _, option = (error.missing_cfg_file or "").partition("/")
    known = groups()
    if group not in known:
        return f"{' '.join(str(error).split(chr(10))[:1])} Accepted groups: {', '.join(known)}."
    options = sorted({*known[group], *(error.options or ())})
    where = f" (also looked in {config_dir})" if config_dir else ""
    # Whoever gives a file's path learns the name that it has as an option, and whoever gives a class how.
    name = Path(option).name.removesuffix(".yaml")
    as_class = f"A class of your own: {group}=custom {group}._target_={name}. " if "." in name else ""
    return (
        f"Unknown {group} '{option}'. Accepted: {', '.join(options)}{where}. {as_class}"
        f"An option of your own: --config-dir DIR {group}={name} with DIR/{group}/{name}.yaml."
    )


def explained(error: Exception) -> str:
    """Hydra's or OmegaConf's message in our words; unknown keys get the list of known ones."""
    message = str(error).strip()
    first = message.splitlines()[0]
    if first.startswith("Could not override"):
        return _unknown_key(first.split("'")[1])
    if first.startswith("Could not append to config. An item is already"):
        return f"Write {first.split(chr(39))[1]}=VALUE without '+'."
    if first.startswith("Ambiguous value"):
        key = first.split("'")[1].split("=")[0]
        return f"{key} is given several values. Give one, or add --multirun for a run of each."
    if first.startswith("Multiple values for"):
        return f"{first} Give each group once."
    if first.startswith("Missing mandatory value"):
        return f"{first.rpartition(':')[2].strip()} is required."
    return f"The settings cannot be composed: {' '.join(message.split())}"


def _unknown_key(key: str) -> str:
    top = _plain_keys()
    group, _, name = key.partition(".")
    known = groups()
    if name and group in known:
        return (
            f"Unknown setting '{key}': the chosen {group} does not have it. "
            f"`pruner tune --help` lists the settings of every {group}."
        )
    names = [*top, *known]
    accepted = f"{', '.join(top)}; and the groups {', '.join(known)}"
    return f"Unknown setting '{key}'.{did_you_mean(key, names)} Accepted: {accepted}."


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """A hint that continues a message, where one of `names` is nearly the given one."""
    close = difflib.get_close_matches(name, names, 1)
    return f" Did you mean {close[0]}?" if close else ""


def _plain_keys() -> list[str]:
    """The settings that belong to no group."""
    base = OmegaConf.load(CONF / "config.yaml")
    return [str(name) for name in base if name not in ("defaults", "hydra")]


def _unwrapped(error: Exception, cfg: Mapping[str, Any]) -> str:
    """Why a component cannot be made, from the innermost error."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    target = cfg.get("_target_", "???")
    if target == "???":
        return "A custom component needs its class: GROUP=custom GROUP._target_=package.Class."
    module, _, name = str(target).rpartition(".")
    if module in sys.modules:  # Python takes the class for a module that is not there
        found = sys.modules[module]
        reason = f"{getattr(found, '__file__', module)} has no {name}"
        hint = did_you_mean(name, [one for one in vars(found) if one[0] != "_"])
    else:
        reason, hint = " ".join(str(cause).split()).rstrip("."), ""
    return (
        f"Cannot load '{target}': {reason}.{hint} Expected the dotted path of a class "
        f"that can be imported from here (package.module.Class)."
    )


def _check(cfg: DictConfig) -> None:
    """The plain settings' types and ranges."""
    removed = [key for key in _plain_keys() if key not in cfg and not OmegaConf.is_missing(cfg, key)]
    if removed:
        raise ConfigError(f"{', '.join(removed)} cannot be removed. Leave the '~' argument out.")
    if OmegaConf.is_missing(cfg, "workload") or not isinstance(cfg.workload, str) or not cfg.workload.strip():
        raise ConfigError(
            "workload= is required: an operator such as C2D/1 (family/index), path/file.py:function, "
            "or a TVMScript file."
        )
    if not isinstance(cfg.work_dir, str) or not cfg.work_dir.strip():
        raise ConfigError(f"work_dir={cfg.work_dir} is not accepted: give a folder, or leave it out.")
    _check_data(cfg)
    whole(1, trials=cfg.trials, batch=cfg.batch)
    whole(0, seed=cfg.seed)
    minutes = cfg.minutes
    if minutes is not None and not (isinstance(minutes, (int, float)) and 0 < minutes < float("inf")):
        raise ConfigError(f"minutes={minutes} is not accepted: give a number above 0, or null for no limit.")
    for group in groups().keys() - {PRESETS}:
        described = cfg.get(group)
        if not isinstance(described, DictConfig):
            raise ConfigError(f"{group} needs an option: {group}=NAME, one of {', '.join(groups()[group])}.")
        missing = OmegaConf.is_missing(described, "_target_")
        if group != "device" and not (missing or "_target_" in described):
            raise ConfigError(
                f"the chosen {group} has no class: begin its file with `_target_: package.module.Class`."
            )
        if missing:
            raise ConfigError(
                f"{group}=custom needs its class: {group}._target_=package.Class (and {group}.setting=value)."
            )


def _check_data(cfg: DictConfig) -> None:
    """Records are there to be replayed, and a replay is of records."""
    data = OmegaConf.to_container(cfg.data) if isinstance(cfg.data, ListConfig) else cfg.data
    paths = data if isinstance(data, list) else [data]
    if data is not None and not (paths and all(isinstance(path, str) and path.strip() for path in paths)):
        raise ConfigError(f"data={cfg.data} is not accepted: give a path, or a list of paths.")
    measure = cfg.get("measure")
    replays = isinstance(measure, DictConfig) and measure.get("_target_") == REPLAY
    if replays and data is None:
        raise ConfigError(
            "measure=replay needs data=PATH, the records to replay: what `pruner records inspect PATH` "
            "reads. workload= then names one of their tasks."
        )
    if data is not None and not replays:
        raise ConfigError(f"data={cfg.data} is for measure=replay: add that, or leave data out.")
    if data is not None and cfg.target is not None:
        raise ConfigError(
            f"target={cfg.target} cannot be chosen in a replay: it is the recorded one. Leave target out."
        )
