"""Verifiers as a study names them, and the settings that each may choose from."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from pruner.config import compose, did_you_mean, groups, imported, instantiate
from pruner.costmodel.verifier import Verifier
from pruner.errors import ConfigError
from pruner.features.make import check_names
from pruner.settings import accepted

RANDOM = "random"
_TRIED = Path(__file__).parent / "conf" / "cost_model_settings.yaml"


@dataclass(frozen=True)
class Entry:
    """A verifier by its option of `pruner tune` or as `package.module.Class`, with overrides behind it:
    `pacm verifier.dataflow=false`.

    label: as given. tried: lists of overrides to choose from, no two of one meaning.
    """

    label: str
    tried: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, label: str, settings: int) -> Entry:
        """With the first `settings` lists of its verifier; one that has no lists has its own settings alone.
        Raises ConfigError for what is no entry, and what making the verifier raises."""
        try:
            name, *overrides = shlex.split(label)
        except ValueError as error:
            raise ConfigError(f"verifiers={label!r} cannot be read: {error}. {_FORM}") from error
        known = groups()["verifier"]
        if "." not in name and name not in known:
            raise ConfigError(
                f"verifiers={label!r}: there is no verifier {name}.{did_you_mean(name, known)} There are "
                f"{', '.join(known)}. {_FORM}"
            )
        for override in overrides:
            if not override.startswith("verifier."):
                raise ConfigError(f"verifiers={label!r}: {override} is no setting of a verifier. {_FORM}")
            key, _, _ = override.partition("=")
            if key in _OF_THE_STUDY:
                raise ConfigError(
                    f"verifiers={label!r}: {key} is not the verifier's here. {_OF_THE_STUDY[key]}"
                )
        lists = _lists().get(name)
        if lists is not None and len(lists) < settings:
            raise ConfigError(
                f"settings={settings} is not accepted: {_TRIED.name} has {len(lists)} for {name}. Every "
                "verifier is given as many."
            )
        tried: dict[str, tuple[str, ...]] = {}
        for one in lists[:settings] if lists else [()]:
            # What the entry itself sets may leave two lists with one meaning.
            tried.setdefault(OmegaConf.to_yaml(_composed(label, one)), one)
        entry = cls(label, tuple(tried.values()))
        _ = entry.features  # all can be made
        return entry

    @property
    def features(self) -> set[str]:
        """All that its models may see."""
        models = [self.made(tried, seed=0, fit_seconds=1.0) for tried in self.tried]
        for model in models:
            check_names(model.features)
        return {name for model in models for name in model.features}

    def config(self, tried: Sequence[str]) -> DictConfig:
        """The verifier's settings, resolved; what the entry itself sets is not up for choice."""
        return _composed(self.label, tuple(tried))

    def made(
        self, tried: Sequence[str], *, seed: int, fit_seconds: float, resume: Path | None = None
    ) -> Verifier:
        """A new verifier. One whose class takes `fit_seconds` is told how long a fit may last, and one that
        takes `resume` the file that keeps a cut-off training's state, if there is to be one."""
        cfg = self.config(tried)
        takes = accepted(imported(cfg).func) or ()
        told: dict[str, object] = {"fit_seconds": fit_seconds}
        if resume is not None:
            told["resume"] = str(resume)
        verifier = instantiate(cfg, seed=seed, **{key: value for key, value in told.items() if key in takes})
        if not isinstance(verifier, Verifier):
            raise ConfigError(f"verifiers={self.label}: {type(verifier).__name__} is no Verifier. {_FORM}")
        return verifier


@cache
def _composed(label: str, tried: tuple[str, ...]) -> DictConfig:
    name, *overrides = shlex.split(label)
    own = ["verifier=custom", f"verifier._target_={name}"] if "." in name else [f"verifier={name}"]
    mine = {override.partition("=")[0] for override in overrides}
    others = [override for override in tried if override.partition("=")[0] not in mine]
    found: DictConfig = compose(["workload=GMM/0", *own, *others, *overrides]).verifier
    return found


_OF_THE_STUDY = {
    "verifier.fit_seconds": "Give fit_seconds= of the study, the same for all.",
    "verifier.resume": "The study keeps what it has made, and goes on with it.",
    "verifier.seed": "Give seed= of the study.",
}
_FORM = (
    "Give an option of `pruner tune`'s verifier or package.module.Class, and settings behind it: "
    "'xgb verifier.depth=6'."
)


def _lists() -> dict[str, list[tuple[str, ...]]]:
    """The settings to choose from, by verifier."""
    try:
        found = OmegaConf.to_container(OmegaConf.load(_TRIED))
        assert isinstance(found, dict)
        return {str(name): [tuple(one) for one in lists] for name, lists in found.items()}
    except (OSError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{_TRIED} cannot be read: {error}") from error
