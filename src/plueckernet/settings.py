"""Checks that frozen settings make of their own fields in ``__post_init__``.

Each check takes the settings and the names of fields. A field that is None follows the data and passes. The error names
the class and the field.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from plueckernet.errors import InputError


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
