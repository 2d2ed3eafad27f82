"""The centre of lines, and their distances from it, are those of NumPy and PyTorch."""

import numpy as np
import pytest
import torch
from tests.estimation.lines_for_tests import matched_lines

from plueckernet.estimation import strays
from plueckernet.geometry import LineSet, lines
from plueckernet.kernels.library import compiled

pytestmark = pytest.mark.skipif(not compiled(), reason="there are no kernels")


def some_lines(kind: str) -> LineSet:
    given = matched_lines(80)[0].lines
    if kind == "few":
        return given[torch.arange(4)]
    points = given.footpoints()
    direction = given.direction.clone()
    if kind == "parallel":
        direction[:] = torch.tensor([0.0, 0, 1], dtype=torch.float64)
    if kind == "planar":
        direction[:, 2] = 0
    if kind == "stray":
        points[7] *= 1e6
    if kind == "through one point":
        points[:] = 1.0
    return LineSet.from_point_direction(points, direction)


@pytest.mark.parametrize("kind", ["random", "few", "parallel", "planar", "stray", "through one point"])
def test_centre_and_distances_are_those_without_kernels(kind, monkeypatch):
    given = some_lines(kind)
    centre, distances, stray = given.centre(), strays._distances(given), strays.stray_lines(given)
    monkeypatch.setattr(lines, "compiled", lambda *_: False)
    monkeypatch.setattr(strays, "compiled", lambda *_: False)
    torch.testing.assert_close(centre, given.centre(), rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(distances, strays._distances(given), strict=True):  # each, their median and the largest
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    without = strays.stray_lines(given)
    assert (stray is None) == (without is None)
    assert stray is None or without is None or torch.equal(stray, without)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_lines_that_are_not_finite_have_no_strays(value):
    given = some_lines("random")
    moment = given.moment.clone()
    moment[3] = value
    with np.errstate(invalid="ignore"):
        assert strays.stray_lines(given.replaced(moment=moment)) is None


def test_the_centre_can_be_differentiated():
    given = some_lines("random")
    moment = given.moment.clone().requires_grad_()
    given.replaced(moment=moment).centre().sum().backward()
    assert moment.grad is not None
