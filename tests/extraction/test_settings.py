"""Settings of the extraction: every number is validated, and the error names its field."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from benchmarks.sensitivity import variations
from benchmarks.sensitivity_extraction import ExtractionSettings

from plueckernet.errors import InputError
from plueckernet.extraction import PointCloudSettings, RgbdSettings


def numbers(settings: Any) -> list[tuple[Any, str]]:
    """Settings, nested ones included, and the names of their numeric fields."""
    values = [(settings, each.name, getattr(settings, each.name)) for each in fields(settings)]
    own = [(owner, name) for owner, name, value in values if isinstance(value, int | float)]
    return own + [pair for _, _, value in values if is_dataclass(value) for pair in numbers(value)]


ALL = numbers(PointCloudSettings(workers=1)) + numbers(RgbdSettings())


def test_a_bad_value_is_refused_by_name() -> None:
    for settings, name in ALL:
        kind = type(getattr(settings, name))
        for value in (kind(-1000), math.nan)[: 1 + (kind is float)]:
            with pytest.raises(InputError, match=rf"{type(settings).__name__}\.{name}: expected .*, got {value!r}"):
                replace(settings, **{name: value})


def test_a_viewpoint_is_three_finite_numbers() -> None:
    with pytest.raises(InputError, match="viewpoint: expected three finite numbers"):
        PointCloudSettings(viewpoint=(0.0, math.inf, 1.0))


def test_the_noise_of_depths_is_checked() -> None:
    for noise in ((0.0, 0.0), (-0.1, 0.2), (0.1, math.nan)):
        with pytest.raises(InputError, match=r"RgbdSettings\.noise: expected two numbers"):
            RgbdSettings(noise=noise)


def test_variations_change_one_number_each() -> None:
    default = ExtractionSettings()
    labels = [label for label, _, _ in variations(default)]
    for _, name in ALL:
        assert any(label.endswith(f".{name}") for label in labels) or name in ("seed", "workers")
    for label, value, varied in variations(default):
        before, after = default, varied
        for step in label.split("."):
            before, after = (each[int(step)] if step.isdigit() else getattr(each, step) for each in (before, after))
        assert after == value != before


def test_a_fraction_is_clipped_and_a_count_rounded() -> None:
    values: dict[str, list[float]] = {}
    for label, value, _ in variations(PointCloudSettings(workers=1)):
        values.setdefault(label, []).append(value)
    assert values["planes.min_flat_fraction"] == [0.45, 1.0]
    assert values["min_plane"] == [15, 45]
    assert "viewpoint" not in values
