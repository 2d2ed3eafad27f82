"""A pose is scored on the lines it is expected to explain, not on lines that the other map cannot contain."""

import pytest
import torch
from tests.estimation.lines_for_tests import matched_lines

from plueckernet.estimation.hull import VOLUME_EVIDENCE
from plueckernet.estimation.infinite_lines import InfiniteLines
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.estimation.verification import Explained, MapScorer
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import stacked

THRESHOLD = InlierThreshold(0.02, 0.1)
IDENTITY = Pose.identity(1)


def segments(count: int, seed: int, middle: float = 0.0) -> torch.Tensor:
    """Short segments of any direction in a cube of side two."""
    generator = torch.Generator().manual_seed(seed)
    centre = 2 * torch.rand(count, 1, 3, generator=generator, dtype=torch.float64) - 1 + middle
    arm = torch.randn(count, 1, 3, generator=generator, dtype=torch.float64)
    arm = 0.15 * arm / arm.norm(dim=-1, keepdim=True)
    return torch.cat([centre - arm, centre + arm], 1)


def anchored(*blocks: torch.Tensor) -> AnchoredLines:
    return AnchoredLines.of(LineSet.from_segments(torch.cat(blocks)))


def score(source: AnchoredLines, target: AnchoredLines, pose: Pose = IDENTITY) -> float:
    return float(MapScorer(source, target, THRESHOLD).scores(pose))


def test_lines_outside_the_other_map_say_nothing():
    common, elsewhere = segments(60, 0), segments(60, 1, middle=4.0)
    assert abs(score(anchored(common, elsewhere), anchored(common)) - score(anchored(common), anchored(common))) < 0.5


def test_lines_amid_the_other_map_without_a_partner_speak_against_the_pose():
    common, missed = segments(200, 0), segments(200, 1)
    assert score(anchored(common, missed), anchored(common)) < 0.8 * score(anchored(common), anchored(common))


def test_the_shared_volume_is_where_both_maps_are():
    """Of neighbouring maps: lines that one lacks there are missing, and those that it lacks elsewhere are not."""
    every = segments(800, 0)
    x = every[:, :, 0].mean(1)
    source, target = every[x < 0.3], every[x > -0.3]
    common = float((x.abs() < 0.3).sum())
    shared, odd = source[:, :, 0].mean(1) > -0.3, torch.arange(len(source)) % 2 == 1

    def missing(kept: torch.Tensor) -> float:
        volume = MapScorer(anchored(source[kept]), anchored(target), THRESHOLD).shared_volume(IDENTITY)
        assert float(volume.volume_explained) == pytest.approx(2 * float((kept & shared).sum()), rel=0.02)
        return float(volume.volume_lines - volume.volume_explained)

    least = missing(torch.ones_like(shared))  # lines that begin inside count in part
    assert least < 0.3 * common
    assert missing(~(shared & odd)) - least == pytest.approx(common / 2, rel=0.1)
    assert missing(shared | odd) <= least


@pytest.mark.parametrize(("count", "alike"), [(200, True), (201, False)])
def test_lines_missing_in_a_map_of_few_lines_say_nothing(count, alike):
    many, few = anchored(segments(count, 0)), anchored(segments(count, 0)[:10])
    for sides in ((many, few), (few, many)):
        volume = MapScorer(*sides, THRESHOLD).shared_volume(IDENTITY)
        assert [float(getattr(volume, name)) > 0 for name in VOLUME_EVIDENCE] == [alike] * 3


def test_a_small_volume_that_is_explained_counts_more_than_a_large_one_that_is_not():
    """Neighbouring maps: shifted onto each other, they fill more of the same volume and explain none of it."""
    every = segments(600, 0)
    x = every[:, :, 0].mean(1)
    source, target = anchored(every[x < 0.3]), anchored(every[x > -0.3])
    offset = target.anchor.mean(0) - source.anchor.mean(0)
    shift = torch.stack([torch.zeros_like(offset), offset])
    poses = Pose(IDENTITY.rotation.expand(2, 3, 3), shift)
    scorer = MapScorer(source, target, THRESHOLD)
    right, wrong = scorer.shared_fractions(poses).tolist()
    assert right > 3 * wrong
    volume = scorer.shared_volume(poses).volume_lines
    assert volume[1] > 1.5 * volume[0]
    lines = scorer.explained(poses).lines
    assert [right, wrong] == pytest.approx((lines / (volume + 10)).tolist(), rel=0.25)  # of a sample of the lines


def test_the_shared_volume_says_nothing_of_lines_without_ends_or_of_very_few():
    many, few = anchored(segments(201, 0)), anchored(segments(201, 0)[:10])
    assert MapScorer(many, few, THRESHOLD).shared_fractions(IDENTITY) is None
    infinite = AnchoredLines.of(many.lines.infinite())
    assert MapScorer(infinite, infinite, THRESHOLD).shared_fractions(IDENTITY) is None


def test_a_wrong_pose_puts_lines_where_the_other_map_has_none():
    """Two walls; moved by half the gap, the lines of one lie amid the gap of the other."""
    walls = segments(200, 0) * torch.tensor([0.02, 1.0, 1.0], dtype=torch.float64)
    sides = anchored(walls, walls + torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64))
    shift = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    scorer = MapScorer(sides, sides, THRESHOLD)
    right, wrong = scorer.shared_volume(IDENTITY), scorer.shared_volume(Pose(IDENTITY.rotation, shift))
    assert float(right.volume_covered) == pytest.approx(float(right.volume_lines))
    assert float(wrong.volume_covered) < 0.1 * float(wrong.volume_lines)


def test_a_bundle_counts_as_one_line():
    offsets = torch.linspace(0, THRESHOLD.distance, 30, dtype=torch.float64)[:, None, None]
    bundle = segments(1, 5) + offsets * torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    common = segments(30, 0)
    without = score(anchored(common, bundle), anchored(common))
    # Weights have a mean of one: the 30 lines that are explained count 60 * 30/31, those of the bundle 60 * 1/31.
    explained = (60 * 30 / 31 + 30) / 2
    assert abs(without - explained**2 / (explained + 10)) < 0.06 * without


def test_the_right_pose_passes_the_screening():
    common = segments(150, 0)
    pose = Pose.random(generator=torch.Generator().manual_seed(1), translation=0.5)
    wrong = [Pose.random(generator=torch.Generator().manual_seed(seed), translation=0.5) for seed in range(2, 202)]
    poses = Pose(
        torch.stack([candidate.rotation for candidate in [*wrong, pose]]),
        torch.stack([candidate.translation for candidate in [*wrong, pose]]),
    )
    target = AnchoredLines.of(pose @ LineSet.from_segments(common))
    rows, scores = MapScorer(anchored(common), target, THRESHOLD).best(poses, 5)
    assert rows.shape == (5,)
    assert int(rows[0]) == len(wrong)
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)


def test_a_core_finds_its_partners_among_all_lines():
    every, identity = anchored(segments(60, 0)), Pose.identity(1)
    cores = [every[torch.arange(side, 60, 2)] for side in (0, 1)]  # no line is in both
    apart = MapScorer(*cores, THRESHOLD).explained(identity)
    among_all = MapScorer(*cores, THRESHOLD, partners=(every, every)).explained(identity)
    assert float(apart.fraction) < 0.3
    assert float(among_all.fraction) > 0.99
    assert float(among_all.lines) == pytest.approx(30, rel=0.01)


def test_infinite_lines_have_no_extent_and_are_counted():
    source, target, pose, _ = matched_lines(80)
    poses, threshold = Pose(pose.rotation[None], pose.translation[None]), InlierThreshold()
    misfit = pair_residuals(poses, source, target, threshold)
    explained = [(1 - misfit.amin(side)).clamp_min(0).sum(-1) for side in (1, 2)]
    counted = MapScorer(source, target, threshold).explained(poses).lines
    torch.testing.assert_close(counted.double(), (explained[0] + explained[1]) / 2, rtol=1e-3, atol=1e-3)


def test_the_overlap_are_the_lines_where_the_other_map_has_some():
    common, elsewhere, further = segments(60, 0), segments(40, 1, middle=4.0), segments(30, 2, middle=-4.0)
    pose = Pose.random(generator=torch.Generator().manual_seed(1), translation=0.5)
    source, target = LineSet.from_segments(torch.cat([common, elsewhere])), torch.cat([further, common])
    sides = AnchoredLines.of(source), AnchoredLines.of(pose @ LineSet.from_segments(target))
    rows, columns = MapScorer(*sides, THRESHOLD).overlap(pose)
    assert rows.tolist() == list(range(60))
    assert columns.tolist() == list(range(30, 90))
    infinite = [AnchoredLines.of(side.lines.infinite()) for side in sides]
    assert [len(side) for side in MapScorer(*infinite, THRESHOLD).overlap(pose)] == [0, 0]


def test_no_poses_have_no_scores():
    lines = anchored(segments(10, 0))
    assert MapScorer(lines, lines, THRESHOLD).scores(Pose.identity(0)).shape == (0,)


def explained(lines: list[float], expected: list[float]) -> Explained:
    counts = torch.tensor(lines), torch.tensor(expected)
    return Explained(counts[0], counts[0], counts[1], counts[1])


def test_missing_lines_count_by_what_chance_would_miss():
    drawing = explained([1000.0, 980.0], [1000.0, 1000.0]).deficit(1.0)
    scan = explained([100.0, 98.0], [400.0, 400.0]).deficit(0.25)
    assert float(drawing[0]) == 0
    assert float(drawing[1]) > 8
    assert 0 < float(scan[1]) < 0.5
    assert float(explained([60.0], [100.0]).deficit(0.5)[0]) < -1


@pytest.mark.parametrize("directed", [False, True])
def test_the_best_partners_among_infinite_lines_are_those_of_all_pairs(directed):
    source, target, pose, _ = matched_lines(count=80, seed=3)
    near = [Pose.random(generator=torch.Generator().manual_seed(seed), translation=5.0) for seed in range(4)]
    poses = stacked([pose, *near])
    threshold = InlierThreshold(0.2, 0.1, directed)
    expected = pair_residuals(poses, source[torch.arange(30)], target, threshold).amin(2)
    misfit = InfiniteLines(target, threshold).misfit(poses, source[torch.arange(30)])
    torch.testing.assert_close(misfit, expected, rtol=1e-6, atol=1e-6)
    assert int((expected[0] < 1).sum()) > (5 if directed else 10)
