"""Checks that frozen settings make of their own fields in ``__post_init__``, and changes that are given as text.

Each check takes the settings and the names of fields. A field that is None follows the data and passes. The error names
the class and the field.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from plueckernet.errors import InputError

_T = TypeVar("_T")


def check_positive(settings: object, *names: str) -> None:
    """Raise unless the fields are finite and greater than zero."""
    for name, value in _numbers(settings, names):
        if not (_is_finite(value) and value > 0):
            raise _error(settings, name, "a positive number", value)


def check_fraction(settings: object, *names: str) -> None:
    """Raise unless the fields lie in [0, 1]."""
    for name, value in _numbers(settings, names):
        if not 0 <= value <= 1:
            raise _error(settings, name, "a fraction in [0, 1]", value)


def check_at_least(settings: object, minimum: int | float, *names: str) -> None:
    """Raise unless the fields are finite and not below the minimum."""
    for name, value in _numbers(settings, names):
        if not (_is_finite(value) and value >= minimum):
            raise _error(settings, name, f"a number of at least {minimum:g}", value)


def check_at_most(settings: object, maximum: int | float, *names: str) -> None:
    """Raise unless the fields are finite and not above the maximum."""
    for name, value in _numbers(settings, names):
        if not (_is_finite(value) and value <= maximum):
            raise _error(settings, name, f"a number of at most {maximum:g}", value)


def check_kinds(settings: Any) -> None:
    """Raise unless every field has its declared type: a number, a truth value, one of some words, other settings."""
    hints = get_type_hints(type(settings))
    for field in fields(settings):
        kind, value = hints[field.name], getattr(settings, field.name)
        if get_origin(kind) is Literal:
            fits, expected = value in get_args(kind), " or ".join(map(repr, get_args(kind)))
        elif kind is float:
            fits, expected = isinstance(value, int | float) and not isinstance(value, bool), "a number"
        else:
            fits, expected = (
                type(value) is kind,
                "settings" if is_dataclass(kind) else f"a value of type {kind.__name__}",
            )
        if not fits:
            raise _error(settings, field.name, expected, value)


def _is_finite(value: int | float) -> bool:
    """Also of whole numbers too large for a float."""
    return isinstance(value, int) or math.isfinite(value)


def _numbers(settings: object, names: tuple[str, ...]) -> list[tuple[str, int | float]]:
    """The fields that hold a value, each checked to be a number; a truth value is none."""
    values = [(name, getattr(settings, name)) for name in names]
    for name, value in values:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise _error(settings, name, "a number", value)
    return [(name, value) for name, value in values if value is not None]


def _error(settings: object, name: str, expected: str, value: object) -> InputError:
    return InputError(f"{type(settings).__name__}.{name}: expected {expected}, got {value!r}")


def with_values(settings: _T, assignments: Iterable[str], option: str = "--set") -> _T:
    """Settings with fields replaced by assignments such as ``judgement.min_confidence=0.8``.

    Values are written as in TOML; ``none`` stands for None. An unknown field, or a value of another type than the one
    it replaces, raises :class:`InputError`.
    """
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            raise InputError(f"{option} {assignment}: expected name=value")
        settings = _replaced(settings, names, _parsed(text.strip()), f"{option} {assignment}")
    return settings


def _replaced(settings: Any, names: list[str], value: Any, place: str) -> Any:
    known = [item.name for item in fields(settings)]
    if names[0] not in known:
        raise InputError(f"{place}: unknown setting {names[0]!r}; available: {', '.join(known)}")
    old = getattr(settings, names[0])
    if len(names) > 1:
        if not is_dataclass(old):
            raise InputError(f"{place}: {names[0]} has no settings of its own")
        return replace(settings, **{names[0]: _replaced(old, names[1:], value, place)})
    if is_dataclass(old):
        raise InputError(f"{place}: {names[0]} has settings of its own: {', '.join(f.name for f in fields(old))}")
    hint = get_type_hints(type(settings))[names[0]]
    kinds = [None if kind is NoneType else kind for kind in (get_args(hint) or (hint,))]
    if value is None and None in kinds:
        return replace(settings, **{names[0]: None})
    if float in kinds and type(value) is int:
        value = float(value)
    if isinstance(old, tuple) and isinstance(value, list):
        value = tuple(value)
    if type(value) not in kinds and not (isinstance(old, tuple) and isinstance(value, tuple)) and value not in kinds:
        raise InputError(f"{place}: expected {hint if get_args(hint) else hint.__name__}, got {value!r}")
    return replace(settings, **{names[0]: value})


def _parsed(text: str) -> Any:
    """A value of TOML, None for ``none``; what is neither is text."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
