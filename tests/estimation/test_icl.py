"""ICL: nothing to do stays nothing, small motions are found, and signs do not matter when they are not trusted."""

import math

import pytest
import torch

from plueckernet.data import AnyProtocol, Noise, make_scene, sample_pair
from plueckernet.data.protocols import with_noise
from plueckernet.errors import DegenerateError, InputError
from plueckernet.estimation.icl import IclSettings, icl
from plueckernet.geometry import LineSet, Pose

SIGN_AWARE = IclSettings(sign_aware=True)
BOTH = [IclSettings(), SIGN_AWARE]


def house(seed: int = 1) -> LineSet:
    return make_scene("indoor", seed).infinite()


def small_motion(degrees: float = 4.0, metres: float = 0.2) -> Pose:
    turn = torch.tensor([0.6, -0.3, 0.74], dtype=torch.float64) * math.radians(degrees)
    shift = torch.tensor([1.0, -0.5, 0.7], dtype=torch.float64) * metres
    return Pose(Pose.exp(torch.cat([turn, shift])).rotation, shift)


def random_flips(lines: LineSet, seed: int = 0) -> LineSet:
    return lines.flipped(torch.rand(len(lines), generator=torch.Generator().manual_seed(seed)) < 0.5)


def error(estimate: Pose, truth: Pose) -> tuple[float, float]:
    return float(estimate.angle_to(truth).rad2deg()), float((estimate.translation - truth.translation).norm())


@pytest.mark.parametrize("settings", BOTH, ids=["paper", "sign-aware"])
def test_identity_is_a_fixed_point(settings):
    lines = house()
    result = icl(lines, lines, settings=settings)
    assert result.converged
    assert result.cost < 1e-9
    assert max(error(result.target_T_source, Pose.identity())) < 1e-6


@pytest.mark.parametrize("settings", BOTH, ids=["paper", "sign-aware"])
def test_a_small_motion_is_found(settings):
    lines, truth = house(), small_motion()
    result = icl(lines, truth @ lines, settings=settings)
    assert result.converged
    assert max(error(result.target_T_source, truth)) < 1e-6


def test_noise_leaves_a_small_error():
    lines, truth = house(), small_motion()
    generator = torch.Generator().manual_seed(0)
    source = with_noise(lines, Noise(), None, generator)
    target = with_noise(truth @ lines, Noise(), None, generator)
    result = icl(source, target)
    turn, shift = error(result.target_T_source, truth)
    assert turn < 1.5
    assert shift < 0.15
    assert result.matches.shape == (len(source), 2)


def test_flipped_signs_mislead_only_the_directed():
    lines, truth = house(), small_motion()
    target = random_flips(truth @ lines)
    assert error(icl(lines, target).target_T_source, truth)[0] > 1
    assert max(error(icl(lines, target, settings=SIGN_AWARE).target_T_source, truth)) < 1e-6


def test_signs_do_not_change_the_sign_aware_answer():
    pair = sample_pair(make_scene("indoor", 2), AnyProtocol(), 0)
    start = small_motion(3, 0.1) @ pair.target_T_source
    plain = icl(pair.source, pair.target, settings=SIGN_AWARE, initial=start)
    flipped = icl(random_flips(pair.source, 1), random_flips(pair.target, 2), settings=SIGN_AWARE, initial=start)
    assert torch.equal(plain.matches, flipped.matches)
    torch.testing.assert_close(plain.target_T_source.matrix(), flipped.target_T_source.matrix(), atol=1e-9, rtol=0)


def test_the_origin_does_not_matter_to_the_sign_aware():
    scene, truth = make_scene("indoor", 3), small_motion()
    offset = torch.tensor([400.0, -900.0, 50.0], dtype=torch.float64)
    target = truth @ scene
    here = icl(scene, target, settings=SIGN_AWARE)
    there = icl(
        scene, target.shifted(offset), settings=SIGN_AWARE, initial=Pose(truth.rotation, truth.translation - offset)
    )
    torch.testing.assert_close(
        there.target_T_source.translation + offset, here.target_T_source.translation, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("settings", BOTH, ids=["paper", "sign-aware"])
def test_matches_are_the_nearest_lines(settings):
    lines = house()
    target = with_noise(lines, Noise(), None, torch.Generator().manual_seed(0))
    result = icl(lines, target, settings=settings)
    moved = result.target_T_source @ lines
    if settings.sign_aware:
        centre = target.centre()
        moved, shown = moved.shifted(centre), target.shifted(centre)
        scale = shown.moment.square().sum(-1).mean().sqrt()
    else:
        shown, scale = target, 1.0
    a, b = (torch.cat([x.moment, scale * x.direction], -1) for x in (moved, shown))
    distance = torch.cdist(a, b)
    if settings.sign_aware:
        distance = torch.minimum(distance, torch.cdist(a, -b))
    assert torch.equal(result.matches[:, 1], distance.argmin(-1))
    assert result.cost == pytest.approx(float(distance.amin(-1).mean()))


def test_it_stops_when_told():
    lines, truth = house(), small_motion(20, 1.0)
    result = icl(lines, truth @ lines, settings=IclSettings(max_iterations=1))
    assert result.iterations == 1
    assert not result.converged


def test_lines_that_fix_no_pose_are_refused():
    lines = house()
    upright = lines[lines.direction[:, 2].abs() > 0.999]
    with pytest.raises(DegenerateError):
        icl(upright, upright)
    with pytest.raises(InputError, match="at least two"):
        icl(lines[:1], lines)
