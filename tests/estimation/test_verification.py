"""A pose is held against what it should explain: not against lines that the other map cannot show."""

import torch
from tests.estimation.lines_for_tests import matched_lines

from plueckernet.estimation.scoring import AnchoredLines, Tolerance, pair_residuals
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry import LineSet, Pose

TOLERANCE = Tolerance(0.02, 0.1)
STILL = Pose.identity(1)


def segments(count: int, seed: int, middle: float = 0.0) -> torch.Tensor:
    """Short segments of any direction in a cube of side two."""
    generator = torch.Generator().manual_seed(seed)
    centre = 2 * torch.rand(count, 1, 3, generator=generator, dtype=torch.float64) - 1 + middle
    arm = torch.randn(count, 1, 3, generator=generator, dtype=torch.float64)
    arm = 0.15 * arm / arm.norm(dim=-1, keepdim=True)
    return torch.cat([centre - arm, centre + arm], 1)


def anchored(*parts: torch.Tensor) -> AnchoredLines:
    return AnchoredLines.of(LineSet.from_segments(torch.cat(parts)))


def score(source: AnchoredLines, target: AnchoredLines, pose: Pose = STILL) -> float:
    return float(MapScorer(source, target, TOLERANCE).scores(pose))


def test_lines_outside_the_other_map_say_nothing():
    both, elsewhere = segments(60, 0), segments(60, 1, middle=4.0)
    assert abs(score(anchored(both, elsewhere), anchored(both)) - score(anchored(both), anchored(both))) < 0.5


def test_lines_amid_the_other_map_without_a_partner_speak_against_the_pose():
    both, missed = segments(200, 0), segments(200, 1)
    assert score(anchored(both, missed), anchored(both)) < 0.8 * score(anchored(both), anchored(both))


def test_a_bundle_counts_as_one_line():
    offsets = torch.linspace(0, TOLERANCE.position, 30, dtype=torch.float64)[:, None, None]
    bundle = segments(1, 5) + offsets * torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    both = segments(30, 0)
    without = score(anchored(both, bundle), anchored(both))
    # Weights have a mean of one: the 30 lines that are explained count 60 * 30/31, those of the bundle 60 * 1/31.
    explained = (60 * 30 / 31 + 30) / 2
    assert abs(without - explained**2 / (explained + 10)) < 0.06 * without


def test_the_right_pose_is_among_the_promising_ones():
    both = segments(150, 0)
    pose = Pose.random(generator=torch.Generator().manual_seed(1), translation=0.5)
    wrong = [Pose.random(generator=torch.Generator().manual_seed(seed), translation=0.5) for seed in range(2, 202)]
    poses = Pose(
        torch.stack([one.rotation for one in [*wrong, pose]]), torch.stack([one.translation for one in [*wrong, pose]])
    )
    target = AnchoredLines.of(pose @ LineSet.from_segments(both))
    chosen = MapScorer(anchored(both), target, TOLERANCE).promising(poses, 5)
    assert chosen.rotation.shape[0] == 5
    assert any(torch.equal(rotation, pose.rotation) for rotation in chosen.rotation)


def test_infinite_lines_lie_everywhere_and_are_counted():
    source, target, pose, _ = matched_lines(80)
    poses, tolerance = Pose(pose.rotation[None], pose.translation[None]), Tolerance()
    misfit = pair_residuals(poses, source, target, tolerance)
    explained = [(1 - misfit.amin(side)).clamp_min(0).sum(-1) for side in (1, 2)]
    counted = MapScorer(source, target, tolerance).scores(poses)
    torch.testing.assert_close(counted.double(), (explained[0] + explained[1]) / 2, rtol=1e-3, atol=1e-3)


def test_no_poses_have_no_scores():
    lines = anchored(segments(10, 0))
    assert MapScorer(lines, lines, TOLERANCE).scores(Pose.identity(0)).shape == (0,)
