"""Compiled steps of refinement equal those of NumPy."""

from dataclasses import astuple, replace

import numpy as np
import pytest
import torch

import plueckernet.estimation.refinement as refinement
from plueckernet.estimation.candidates import polished
from plueckernet.estimation.close_pairs import NearbyPairs, close_pairs
from plueckernet.estimation.noise import KnownNoise, NoiseSettings
from plueckernet.estimation.paired_lines import PairedLines, PoseArrays
from plueckernet.estimation.refinement import RefinementSettings, refine_pose
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, RowScorer, pair_residuals
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import joined
from plueckernet.kernels.library import compiled

pytestmark = pytest.mark.skipif(not compiled(), reason="no compiled kernels")

KINDS = ("infinite", "segments", "parallel", "noise factors")


def shaken_maps(kind, count=300, seed=0):
    """Two maps of the same lines, the target a little wrong, with some lines of its own."""
    generator = torch.Generator().manual_seed(seed)
    start = 2 * torch.rand(count, 3, generator=generator, dtype=torch.float64) - 1
    along = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    if kind == "parallel":
        along = along[:1].expand(count, 3) * torch.rand(count, 1, generator=generator, dtype=torch.float64)
    ends = torch.stack([start, start + 0.3 * along], 1)
    shaken = ends + 0.004 * torch.randn(count, 2, 3, generator=generator, dtype=torch.float64)
    maps = [AnchoredLines.of(LineSet.from_segments(side)) for side in (ends, shaken[: count - count // 5])]
    if kind == "infinite":
        maps = [AnchoredLines.of(side.lines.replaced(endpoints=None)) for side in maps]
    if kind == "noise factors":
        maps = [replace(side, noise_factor=1 + torch.rand(len(side), generator=generator).double()) for side in maps]
    return maps


def small_motion(size=0.01):
    xi = torch.tensor([0.3, -0.5, 0.4, 0.2, 0.6, -0.3], dtype=torch.float64)
    return Pose.exp(size * xi)


def both_fits(kind, settings, pose=None):
    source, target = shaken_maps(kind)
    threshold = InlierThreshold(0.1, 0.15)
    placed = PoseArrays.of(pose or small_motion())
    pairs, lines = NearbyPairs(source, target).within(placed, threshold)
    plain = PairedLines(lines.source, lines.target)
    model = settings.noise.initial(threshold)
    fits = [refinement._fit(placed, pairs, side, model, settings) for side in (plain, lines)]
    return fits, model, pairs, lines


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("up", [None, (0.0, 0.6, 0.8)])
@pytest.mark.parametrize("free", [5.0, 6.5])
def test_a_step_and_the_noise_are_those_of_numpy(kind, up, free):
    settings = RefinementSettings(up=up, noise=NoiseSettings(degrees_of_freedom=free))
    (plain, fast), model, pairs, lines = both_fits(kind, settings)
    assert plain.kernel is None
    assert fast.kernel is not None
    for name in ("weight", "variance_scale"):
        np.testing.assert_allclose(getattr(fast, name), getattr(plain, name), rtol=1e-9, atol=1e-12)
    for name in ("position", "direction", "lever"):
        np.testing.assert_allclose(getattr(fast.residuals, name), getattr(plain.residuals, name), atol=1e-12)
    np.testing.assert_allclose(fast.information, plain.information, rtol=1e-9, atol=1e-9 * plain.information.max())
    np.testing.assert_allclose(fast.pose.rotation, plain.pose.rotation, atol=1e-9)
    np.testing.assert_allclose(fast.pose.translation, plain.pose.translation, atol=1e-9)
    assert fast.step == pytest.approx(plain.step, rel=1e-6)
    rough = [refinement._rough_noise(model, fit, lines, settings) for fit in (plain, fast)]
    fine = [refinement._fine_noise(model, fit, pairs, lines) for fit in (plain, fast)]
    for first, second in (rough, fine):
        values = [(noise.position, noise.direction, noise.endpoint) for noise in (first, second)]
        assert values[0] == pytest.approx(values[1], rel=1e-7, abs=1e-12)


RUNS = {
    "as by default": {},
    "brief": {"settings": RefinementSettings(iterations=2, final_iterations=1)},
    "of known position": {"known": KnownNoise(position=0.004)},
    "of known noise": {"known": KnownNoise(0.004, 0.01)},
    "of short segments": {"shortest": 0.2},
}


def plainly(monkeypatch, *arguments, **options):
    """The refinement by NumPy."""
    with monkeypatch.context() as patch:
        for module in ("close_pairs", "refinement"):
            patch.setattr(f"plueckernet.estimation.{module}.compiled", lambda *tensors: False)
        return refine_pose(*arguments, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("size", [0.0, 0.01, 0.04])
@pytest.mark.parametrize("directed", [False, True])
def test_refined_poses_are_those_of_numpy(kind, run, size, directed, monkeypatch):
    arguments = small_motion(size), *shaken_maps(kind), InlierThreshold(0.1, 0.15, directed)
    fast, plain = refine_pose(*arguments, **RUNS[run]), plainly(monkeypatch, *arguments, **RUNS[run])
    if plain is None:
        assert fast is None
        return
    assert torch.allclose(fast.pose.rotation, plain.pose.rotation, rtol=0, atol=1e-10)
    assert torch.allclose(fast.pose.translation, plain.pose.translation, rtol=0, atol=1e-10)
    spread = float(plain.covariance.abs().max())
    assert torch.allclose(fast.covariance, plain.covariance, rtol=1e-6, atol=1e-6 * spread)
    assert astuple(fast.noise) == pytest.approx(astuple(plain.noise), rel=1e-7)
    assert fast.converged == plain.converged
    assert torch.equal(fast.matches, plain.matches)


@pytest.mark.parametrize("kind", ["infinite", "segments"])
def test_a_refinement_goes_on_with_other_pairs_where_the_pose_leaves_those_it_has(kind, monkeypatch):
    asked = []
    kernel = NearbyPairs.kernel
    monkeypatch.setattr(NearbyPairs, "kernel", lambda *arguments: asked.append(1) or kernel(*arguments))
    arguments = small_motion(0.15), *shaken_maps(kind), InlierThreshold(0.12, 0.15)
    fast, plain = refine_pose(*arguments), plainly(monkeypatch, *arguments)
    assert len(asked) > 1
    assert torch.allclose(fast.pose.translation, plain.pose.translation, rtol=0, atol=1e-10)
    assert torch.equal(fast.matches, plain.matches)


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_lines_that_are_no_numbers_do_not_stop_a_refinement(broken, monkeypatch):
    source, target = shaken_maps("infinite")
    anchor = source.anchor.clone()
    anchor[::7] = broken
    refined = refine_pose(small_motion(), replace(source, anchor=anchor), target, InlierThreshold(0.1, 0.15))
    assert refined is None or bool((refined.matches[:, 0] % 7 != 0).all())


def test_few_pairs_give_no_step():
    source, target = shaken_maps("segments", count=2)
    assert refine_pose(Pose.identity(), source, target, InlierThreshold(0.1, 0.15)) is None


def test_numbers_that_are_none_are_close_to_nothing():
    source, target = shaken_maps("segments")
    for broken in (float("nan"), float("inf")):
        anchor = source.anchor.clone()
        anchor[::7] = broken
        rows = close_pairs(Pose.identity(), replace(source, anchor=anchor), target, InlierThreshold(0.1, 0.15)).rows
        assert len(rows) > 100
        assert not (rows[:, 0] % 7 == 0).any()


@pytest.mark.parametrize("count", [0, 1, 5, 300, 2000])
@pytest.mark.parametrize("kind", ["infinite", "segments", "parallel"])
@pytest.mark.parametrize("directed", [False, True])
def test_close_pairs_are_those_of_all_residuals(count, kind, directed):
    if count:
        source, target = shaken_maps(kind, count)
    else:
        source, target = (side[torch.arange(0)] for side in shaken_maps(kind, 5))
    pose = small_motion()
    threshold = InlierThreshold(0.05, 0.2, directed, slope=0.1)
    rows = {tuple(row) for row in close_pairs(pose, source, target, threshold).rows.tolist()}
    single = Pose(pose.rotation[None], pose.translation[None])
    square = pair_residuals(single, source, target, threshold)[0]
    surely, perhaps = ({tuple(row) for row in (square < limit).nonzero().tolist()} for limit in (1 - 1e-9, 1 + 1e-9))
    assert surely <= rows <= perhaps


@pytest.mark.parametrize("kind", ["infinite", "segments", "noise factors"])
@pytest.mark.parametrize("directed", [False, True])
def test_polished_poses_are_those_of_pytorch(kind, directed, monkeypatch):
    source, target = shaken_maps(kind)
    rows = torch.arange(len(target))
    scorer = RowScorer(source[rows], target, InlierThreshold(0.1, 0.15, directed))
    generator = torch.Generator().manual_seed(1)
    poses = Pose.exp(0.03 * torch.randn(9, 6, generator=generator, dtype=torch.float64))
    poses = joined(poses, Pose.exp(torch.tensor([[0, 0, 0, 9.0, 9, 9]], dtype=torch.float64)))  # without inliers
    fast = polished(poses, scorer)
    monkeypatch.setattr("plueckernet.estimation.candidates.compiled", lambda *tensors: False)
    plain = polished(poses, scorer)
    assert torch.allclose(fast.rotation, plain.rotation, rtol=0, atol=1e-10)
    assert torch.allclose(fast.translation, plain.translation, rtol=0, atol=1e-10)


def test_no_matches_polish_nothing():
    lines = shaken_maps("segments", 5)[0][torch.arange(0)]
    poses = Pose.exp(torch.ones(2, 6, dtype=torch.float64))
    result = polished(poses, RowScorer(lines, lines, InlierThreshold()))
    assert torch.equal(result.translation, poses.translation)
