"""Ends that segments have in common determine the shift along them; cut ones and those of windows do not."""

import math

import pytest
import torch
from tests.estimation.shapes_for_tests import pole_field

from plueckernet.estimation.assessment import AssessedCandidate, Assessment
from plueckernet.estimation.ends import held_by_ends
from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import Weighing
from plueckernet.estimation.maps import MapPair, normalize_maps
from plueckernet.estimation.observability import MotionKind, ObservabilitySettings, UnobservableMotion
from plueckernet.estimation.refinement import RefinedCandidate, Refinement
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.residuals import NoiseModel

DISTANCE = 0.06
SETTINGS = ObservabilitySettings()
UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)


def uniform(*shape: int, seed: int) -> torch.Tensor:
    """Random numbers between 0 and 1."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def surveyed(poles: torch.Tensor, seed: int) -> torch.Tensor:
    """The same poles with small errors of their ends."""
    generator = torch.Generator().manual_seed(seed)
    return poles + 0.005 * torch.randn(poles.shape, generator=generator, dtype=torch.float64)


def cut(poles: torch.Tensor, seed: int) -> torch.Tensor:
    """The same poles, of which up to 45 % are missing at each end."""
    lost = 0.45 * uniform(len(poles), 2, 1, seed=seed)
    start, finish = poles.unbind(1)
    along = finish - start
    return torch.stack([start + lost[:, 0] * along, finish - lost[:, 1] * along], 1)


def window(poles: torch.Tensor, turn: float) -> torch.Tensor:
    """Very long lines where the poles are, as a square window sees them that is turned by an angle in radians."""
    normals = torch.tensor([[0.0, math.sin(turn), math.cos(turn)], [0.0, math.cos(turn), -math.sin(turn)]]).double()
    middle = poles.mean(1)
    borders = torch.stack([(sign * 1.5 - middle @ normals.mT) / normals[:, 2] for sign in (-1, 1)]).sort(0).values
    low, high = borders[0].amax(-1), borders[1].amin(-1)
    ends = torch.stack([low, high], -1)[..., None] * UP
    return (middle[:, None] + ends)[low < high]


def equal_poles(count: int) -> torch.Tensor:
    """Poles of one height on level ground."""
    foot = 2 * uniform(count, 1, 3, seed=5) * torch.tensor([1.0, 1.0, 0.0])
    return torch.cat([foot, foot + UP], 1)


def matched(
    source: torch.Tensor, target: torch.Tensor, shift: float = 0.0, pose: Pose | None = None
) -> tuple[MapPair, Refinement]:
    """Maps whose lines match row by row, and a pose that is wrong by a shift along them, in inlier distances."""
    pose = Pose.identity() if pose is None else pose
    lines = LineSet.from_segments(source), pose @ LineSet.from_segments(target)
    maps = normalize_maps(*lines, max_lines=1000, inlier_distance=DISTANCE, inlier_angle=0.14)
    wrong = Pose(torch.eye(3, dtype=torch.float64), shift * DISTANCE * UP)
    rows = torch.arange(len(source))[:, None].expand(-1, 2)
    covariance = torch.diag(torch.tensor([1e-3, 1e-3, 1e-3, 1e-2, 1e-2, 10.0], dtype=torch.float64))
    refined = Refinement(maps.normalized_pose(pose @ wrong), covariance, rows, NoiseModel(), True)
    return maps, refined


def determined(
    maps: MapPair, refined: Refinement, axis: torch.Tensor = UP, settings: ObservabilitySettings = SETTINGS
) -> bool:
    x, y, z = axis.tolist()
    motion = UnobservableMotion(MotionKind.TRANSLATION, (x, y, z), None, 0.0, 10.0)
    return held_by_ends(motion, refined, maps, settings)


def test_ends_in_common_hold_the_shift_along_the_lines():
    poles = pole_field(60)
    assert determined(*matched(surveyed(poles, 1), surveyed(poles, 2)))
    pose = Pose.random(generator=torch.Generator().manual_seed(3), translation=20.0)
    maps, refined = matched(surveyed(poles, 1), surveyed(poles, 2), pose=pose)
    assert determined(maps, refined, pose.rotation @ UP)
    assert determined(maps, refined, -pose.rotation @ UP)


def test_lines_may_be_cut_at_one_end():
    poles = pole_field(80)
    pieces = [torch.stack([poles[:, 0], cut(poles, seed)[:, 1]], 1) for seed in (1, 2)]
    assert determined(*matched(surveyed(pieces[0], 1), surveyed(pieces[1], 2)))


@pytest.mark.parametrize("seed", range(5))
def test_lines_cut_at_random_do_not_hold_it(seed):
    poles = pole_field(60, seed)
    assert not determined(*matched(cut(poles, 2 * seed), cut(poles, 2 * seed + 1)))


@pytest.mark.parametrize("shift", [-8.0, -2.5, 2.5, 8.0])
def test_ends_do_not_hold_a_pose_that_is_shifted_along_the_lines(shift):
    poles = pole_field(60)
    assert determined(*matched(surveyed(poles, 1), surveyed(poles, 2), 0.1 * shift))
    assert not determined(*matched(surveyed(poles, 1), surveyed(poles, 2), shift))


def test_few_lines_do_not_hold_it():
    poles = pole_field(5)
    assert not determined(*matched(surveyed(poles, 1), surveyed(poles, 2)))


def test_equal_poles_do_not_hold_it():
    poles = equal_poles(60)
    assert not determined(*matched(surveyed(poles, 1), surveyed(poles, 2)))
    above_and_below = torch.tensor(
        [[[0.0, 0, -1], [0, 0, 2]], [[2, 0, -1], [2, 0, 2]], [[1, 2, -1], [1, 2, 2]]]
    ).double()
    poles = torch.cat([poles, above_and_below])
    maps, refined = matched(surveyed(poles, 1), surveyed(poles, 2))
    assert not determined(maps, refined)
    assert determined(maps, refined, settings=ObservabilitySettings(min_end_places=2))


@pytest.mark.parametrize("turn", [0.1, 0.3, 0.6, 1.2])
def test_windows_of_equal_shape_do_not_hold_it(turn):
    poles = pole_field(120)
    seen = window(poles, turn)
    assert len(seen) > 80
    assert not determined(*matched(surveyed(seen, 1), surveyed(seen, 2)))


def test_infinite_lines_have_no_ends():
    poles = pole_field(60)
    lines = LineSet.from_segments(poles).infinite()
    maps, refined = matched(poles, poles)
    endless = normalize_maps(lines, lines, max_lines=1000, inlier_distance=DISTANCE, inlier_angle=0.14)
    assert determined(maps, refined)
    assert not determined(endless, refined)


def test_ends_hold_no_rotation():
    poles = pole_field(60)
    maps, refined = matched(poles, poles)
    rotation = UnobservableMotion(MotionKind.ROTATION, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 0.0, 10.0)
    assert not held_by_ends(rotation, refined, maps, SETTINGS)


@pytest.mark.parametrize("common", [True, False], ids=["common ends", "cut ends"])
def test_an_assessment_names_the_shift_unless_ends_hold_it(common):
    poles = pole_field(60)
    source, target = (surveyed(poles, 1), surveyed(poles, 2)) if common else (cut(poles, 1), cut(poles, 2))
    maps, refined = matched(source, target)
    candidate = AssessedCandidate(RefinedCandidate(1.0, 1.0, 0.0, refined), Evidence.nothing(), 1.0, 0)
    motions = Assessment((candidate,), Weighing.nothing()).unobservable_motions(maps)
    assert [motion.kind for motion in motions] == ([] if common else [MotionKind.TRANSLATION])
