"""Checks that frozen settings make of their own fields in ``__post_init__``.

Each check takes the settings and the names of fields. A field that is None follows the data and passes. The error names
the class and the field.
"""

from __future__ import annotations

import math

from plueckernet.errors import InputError


def check_positive(settings: object, *names: str) -> None:
    """Raise unless the fields are finite and greater than zero."""
    for name, value in _numbers(settings, names):
        if not (math.isfinite(value) and value > 0):
            raise _error(settings, name, "a positive number", value)


def check_fraction(settings: object, *names: str) -> None:
    """Raise unless the fields lie in [0, 1]."""
    for name, value in _numbers(settings, names):
        if not 0 <= value <= 1:
            raise _error(settings, name, "a fraction in [0, 1]", value)


def check_at_least(settings: object, minimum: int | float, *names: str) -> None:
    """Raise unless the fields are finite and not below the minimum."""
    for name, value in _numbers(settings, names):
        if not (math.isfinite(value) and value >= minimum):
            raise _error(settings, name, f"a number of at least {minimum:g}", value)


def _numbers(settings: object, names: tuple[str, ...]) -> list[tuple[str, int | float]]:
    """The fields that hold a value, each checked to be a number; a truth value is none."""
    values = [(name, getattr(settings, name)) for name in names]
    for name, value in values:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise _error(settings, name, "a number", value)
    return [(name, value) for name, value in values if value is not None]


def _error(settings: object, name: str, expected: str, value: object) -> InputError:
    return InputError(f"{type(settings).__name__}.{name}: expected {expected}, got {value!r}")
