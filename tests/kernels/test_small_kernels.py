"""What takes a kernel a few microseconds, such as covariances and extents, is what NumPy and PyTorch compute."""

import numpy as np
import pytest
import torch
from tests.estimation.lines_for_tests import matched_lines

from plueckernet import coincidence
from plueckernet.estimation import consistency, extents, gauss_newton, matching, observability
from plueckernet.estimation.maps import normalize_maps
from plueckernet.estimation.observability import ObservabilitySettings, are_all_firm, firmness
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry import LineSet, Pose
from plueckernet.kernels.library import compiled

pytestmark = pytest.mark.skipif(not compiled(), reason="there are no kernels")


def information(kind: str) -> np.ndarray:
    rows = np.random.default_rng(1).normal(size=(40, 6)) * [1e3, 1e3, 10, 1, 1, 1e-3]
    if kind == "undetermined":
        rows[:, 5] = rows[:, 4]
    if kind == "zero":
        rows[:, 2] = 0
    if kind == "nothing":
        rows[:] = 0
    return rows.T @ rows


@pytest.mark.parametrize("kind", ["determined", "undetermined", "zero", "nothing"])
def test_the_covariance_of_a_pose_is_that_of_numpy(kind, monkeypatch):
    covariance = gauss_newton.inverse_information(information(kind))
    assert (gauss_newton.kernel.inverse_information(information(kind), 1e-9) is None) == (kind != "determined")
    monkeypatch.setattr(gauss_newton, "compiled", lambda *_: False)
    np.testing.assert_allclose(covariance, gauss_newton.inverse_information(information(kind)), rtol=1e-9)


def test_what_is_not_finite_has_no_covariance():
    for value in (np.nan, np.inf):
        broken = information("determined")
        broken[2, 2] = value
        assert gauss_newton.kernel.inverse_information(broken, 1e-9) is None


def inliers(kind: str) -> AnchoredLines:
    lines = matched_lines(60)[1].lines
    direction = lines.direction.clone()
    if kind in ("parallel", "nearly parallel"):
        direction[:] = torch.tensor([0.0, 0, 1], dtype=torch.float64)
    if kind == "nearly parallel":
        direction[:7] = torch.tensor([0.6, 0, 0.8], dtype=torch.float64)
    points = torch.zeros_like(direction) + 1 if kind == "through one point" else lines.footpoints()
    if kind != "segments":
        return AnchoredLines.of(LineSet.from_point_direction(points, direction))
    arm = direction * torch.linspace(0.01, 1, 60, dtype=torch.float64)[:, None]
    return AnchoredLines.of(LineSet.from_segments(torch.stack([points - arm, points + arm], 1)))


@pytest.mark.parametrize("kind", ["random", "segments", "parallel", "nearly parallel", "through one point"])
@pytest.mark.parametrize("count", [1, 3, 60])
def test_what_is_said_to_be_firm_is_firm_in_any_unit(kind, count):
    lines, rows = inliers(kind), torch.arange(60)[-count:]
    least = float(firmness(lines[rows])[0])
    half_length = None if lines.half_length is None else 100 * lines.half_length
    large = AnchoredLines(lines.lines.scaled(100.0), 100 * lines.anchor, half_length)
    for factor, given in ((0.9, lines), (1.1, lines), (0.9, large), (1.1, large)):
        limit = max(factor * least, 1e-3)
        settings = ObservabilitySettings(min_firmness=limit, min_rotation_firmness=limit)
        assert are_all_firm(given, rows, settings) == (limit < least)


def test_without_inliers_or_kernels_nothing_is_said_to_be_firm(monkeypatch):
    lines, settings = inliers("random"), ObservabilitySettings()
    assert are_all_firm(lines, torch.arange(60), settings)
    assert not are_all_firm(lines, torch.arange(0), settings)
    broken = AnchoredLines(lines.lines, lines.anchor * torch.nan, None)
    assert not are_all_firm(broken, torch.arange(60), settings)
    monkeypatch.setattr(observability, "compiled", lambda *_: False)
    assert not are_all_firm(lines, torch.arange(60), settings)


@pytest.mark.parametrize("count", [0, 1, 80])
def test_distances_of_pairs_are_those_of_tensors(count, monkeypatch):
    source, target, pose, _ = matched_lines(80)
    maps = normalize_maps(source.lines, target.lines, max_lines=500, inlier_distance=None, inlier_angle=0.1)
    rows = torch.stack([torch.arange(count), torch.arange(count).flip(0)], -1)
    across = Pose(pose.rotation.clone(), pose.translation * 0)
    for motion in (maps.normalized_pose(pose), across):
        distances = coincidence.pair_distances(motion, rows, maps)
        with monkeypatch.context() as patch:
            patch.setattr(coincidence, "compiled", lambda *_: False)
            expected = coincidence.pair_distances(motion, rows, maps)
        torch.testing.assert_close(distances, expected, rtol=1e-9, atol=1e-9)


def log_probability(kind: str) -> torch.Tensor:
    values = 5 * torch.randn(40, 30, generator=torch.Generator().manual_seed(2)) - 5
    if kind == "broken":
        values[3], values[4, ::2], values[5] = torch.nan, torch.inf, -torch.inf
    if kind == "alike":
        values = values.round()
    return values[:, :0] if kind == "empty" else values


@pytest.mark.parametrize("kind", ["random", "broken", "alike", "empty"])
@pytest.mark.parametrize("limit", [1, 800, 5000])
def test_putative_matches_are_those_of_tensors(kind, limit, monkeypatch):
    values = log_probability(kind)
    ours = matching.putative_matches(values, limit)
    monkeypatch.setattr(matching, "compiled", lambda *_: False)
    theirs = matching.putative_matches(values, limit)
    assert torch.equal(ours.probability, theirs.probability)
    if kind == "random":
        assert torch.equal(ours.source, theirs.source)
        assert torch.equal(ours.target, theirs.target)
    places = ours.source * values.shape[1] + ours.target
    assert len(set(places.tolist())) == len(places) == min(limit, values.numel())
    rest = values.nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf).exp().double()
    assert torch.equal(rest[ours.source, ours.target], ours.probability)


@pytest.mark.parametrize("count", [0, 1, 2, 200])
def test_weights_of_draws_are_those_of_tensors(count, monkeypatch):
    generator = torch.Generator().manual_seed(3)
    support = (torch.rand(count, count, generator=generator) * 20).round() * (torch.arange(count) % 7 > 0)
    graph = consistency.MatchGraph(support + support.mT, torch.rand(count, generator=generator))
    for given in (graph, consistency.MatchGraph(0 * graph.support, graph.probability)):
        ours = given.draw_weights()
        with monkeypatch.context() as patch:
            patch.setattr(consistency, "compiled", lambda *_: False)
            torch.testing.assert_close(ours, given.draw_weights(), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("kind", ["random", "parallel", "through one point"])
@pytest.mark.parametrize("count", [1, 2, 60])
def test_the_extent_of_lines_is_that_of_tensors(kind, count, monkeypatch):
    lines = inliers(kind).lines[torch.arange(count)]
    ours = extents._Sizes.of(lines, segments=False)
    with monkeypatch.context() as patch:
        patch.setattr(extents, "compiled", lambda *_: False)
        theirs = extents._Sizes.of(lines, segments=False)
    assert ours.extent == pytest.approx(theirs.extent, rel=1e-9, abs=1e-9)
    assert ours.lengths == pytest.approx(theirs.lengths, rel=1e-9, abs=1e-9, nan_ok=True)
