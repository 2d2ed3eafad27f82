"""Checks of settings: an error names the class, the field and the value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from plueckernet.errors import InputError
from plueckernet.settings import check_at_least, check_fraction, check_positive


@dataclass(frozen=True)
class Example:
    width: float | None = 0.5
    overlap: float = 0.25
    count: int = 3

    def __post_init__(self) -> None:
        check_positive(self, "width")
        check_fraction(self, "overlap")
        check_at_least(self, 2, "count")


def test_valid_values_pass() -> None:
    Example()
    Example(width=None)
    Example(overlap=0.0)
    Example(overlap=1.0, count=2)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("width", 0.0, "a positive number"),
        ("width", math.nan, "a positive number"),
        ("width", math.inf, "a positive number"),
        ("width", True, "a number"),
        ("width", "wide", "a number"),
        ("overlap", 1.1, r"a fraction in \[0, 1\]"),
        ("overlap", math.nan, r"a fraction in \[0, 1\]"),
        ("count", 1, "a number of at least 2"),
    ],
)
def test_the_error_names_the_field(field: str, value: object, expected: str) -> None:
    with pytest.raises(InputError, match=rf"Example\.{field}: expected {expected}, got {value!r}"):
        Example(**{field: value})
