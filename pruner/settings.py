"""Checks of settings: a value that a component cannot bear is refused where it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pruner.errors import ConfigError

# The annotations that say enough to be checked; a whole number will do for a float.
_PLAIN: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "None": (type(None),),
}


def accepted(factory: Callable[..., Any]) -> list[str] | None:
    """Names of what a class or function takes, None where it takes anything; see `parameters`."""
    found, anything = parameters(factory)
    return None if anything else list(found)


def check_types(factory: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raises ConfigError for a setting that is not of the plain type its parameter is annotated with."""
    for name, parameter in parameters(factory)[0].items():
        if name not in settings:
            continue
        annotation = parameter.annotation
        text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        kinds = [kind.strip() for kind in text.split("|")]
        if all(kind in _PLAIN for kind in kinds) and not _fits(settings[name], kinds):
            raise ConfigError(
                f"{name}={settings[name]} is not accepted by {getattr(factory, '__name__', factory)}: "
                f"give {' or '.join(_words(kind) for kind in kinds)}."
            )


def parameters(factory: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], bool]:
    """What a class or function takes, by name. Where the `__init__` of a class takes `**settings`, what the
    next class takes counts too; and whether the last one takes anything."""
    owners = [one for one in getattr(factory, "__mro__", ()) if "__init__" in vars(one) and one is not object]
    found: dict[str, inspect.Parameter] = {}
    for takes in [vars(owner)["__init__"] for owner in owners] or [factory]:
        given = list(inspect.signature(takes).parameters.values())[1 if owners else 0 :]
        for parameter in given:
            if parameter.kind is not parameter.VAR_KEYWORD:
                found.setdefault(parameter.name, parameter)
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in given):
            return found, False
    return found, True


def whole(least: int, **values: object) -> None:
    """Raises ConfigError for the first value that is no whole number of at least `least`."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(f"{name}={value} is not accepted: give a whole number of at least {least}.")


def positive(**values: object) -> None:
    """Raises ConfigError for the first value that is no finite number above 0."""
    for name, value in values.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise ConfigError(f"{name}={value} is not accepted: give a number above 0.")


def _fits(value: object, kinds: list[str]) -> bool:
    if isinstance(value, bool):
        return "bool" in kinds
    return any(isinstance(value, _PLAIN[kind]) for kind in kinds)


def _words(kind: str) -> str:
    return {
        "int": "a whole number",
        "float": "a number",
        "str": "a name",
        "bool": "true or false",
        "None": "null",
    }[kind]
