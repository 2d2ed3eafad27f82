"""The kernels count the lines that the operations on tensors count."""

import pytest
import torch
from tests.estimation.lines_for_tests import matched_lines

from plueckernet.estimation import verification
from plueckernet.estimation.hull import VOLUME_EVIDENCE
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import joined, stacked
from plueckernet.kernels.library import compiled

pytestmark = pytest.mark.skipif(not compiled(), reason="there are no kernels")


def box_lines(count: int, seed: int, length: float = 0.5) -> torch.Tensor:
    """Segments, most of them along the axes and some of them in bundles."""
    generator = torch.Generator().manual_seed(seed)
    middle = 2 * torch.rand(count, 3, generator=generator, dtype=torch.float64) - 1
    middle[1::5] = middle[::5][: len(middle[1::5])] + 0.02
    arm = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    axis = torch.eye(3, dtype=torch.float64)[torch.randint(3, (count,), generator=generator)]
    arm[: count * 3 // 4] = axis[: count * 3 // 4]
    arm[1::5] = arm[::5][: len(arm[1::5])]
    arm = arm * length * torch.rand(count, 1, generator=generator, dtype=torch.float64)
    return torch.stack([middle - arm, middle + arm], 1)


def maps(kind: str, count: int) -> tuple[AnchoredLines, AnchoredLines]:
    segments = [box_lines(count, 0), torch.cat([box_lines(count, 0)[count // 3 :], box_lines(count // 2 + 1, 1)])]
    lines = [LineSet.from_segments(side) for side in segments]
    if kind == "infinite":
        lines = [side.infinite() for side in lines]
    if kind == "parallel":
        lines = [LineSet.from_segments(side[:, :1] + torch.tensor([[0.0, 0, 0], [0, 0, 1]])) for side in segments]
    origin = torch.zeros(3, dtype=torch.float64)
    return AnchoredLines.of(lines[0], origin), AnchoredLines.of(lines[1], origin)


def poses() -> Pose:
    generator = torch.Generator().manual_seed(5)
    near = Pose.exp(0.05 * torch.randn(20, 6, generator=generator, dtype=torch.float64))
    return joined(joined(Pose.identity(1), near), Pose.random(20, generator=generator))


def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "compiled", lambda *_: False)


@pytest.mark.parametrize("kind", ["segments", "infinite", "parallel"])
@pytest.mark.parametrize("count", [3, 60, 400])
@pytest.mark.parametrize("threshold", [InlierThreshold(0.03, 0.14), InlierThreshold(0.08, 0.5, directed=True)])
def test_explained_lines_are_those_of_tensors(kind, count, threshold, monkeypatch):
    sides, motions = maps(kind, count), poses()
    scorer = MapScorer(*sides, threshold)
    plain(monkeypatch)
    expected = MapScorer(*sides, threshold)
    for counting, other in ((scorer, expected), (scorer.against_itself(1), expected.against_itself(1))):
        for counted, count_of in ((counting.explained(motions), other.explained(motions)),):
            for name in ("source", "target", "expected_source", "expected_target"):
                torch.testing.assert_close(getattr(counted, name), getattr(count_of, name), rtol=1e-4, atol=2e-3)
        single = motions.to(torch.float32)
        torch.testing.assert_close(counting._rough_scores(single), other._rough_scores(single), rtol=1e-3, atol=2e-3)
        torch.testing.assert_close(
            counting.compared_scores(motions), other.compared_scores(motions), rtol=1e-3, atol=2e-3
        )
        torch.testing.assert_close(counting.stand_out(motions[0]), other.stand_out(motions[0]), rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("count", [3, 60, 400])
@pytest.mark.parametrize("threshold", [InlierThreshold(0.03, 0.14), InlierThreshold(0.08, 0.5, directed=True)])
def test_the_lines_of_a_shared_volume_are_those_of_tensors(count, threshold, monkeypatch):
    sides, motions = maps("segments", count), poses()
    scorer = MapScorer(*sides, threshold)
    plain(monkeypatch)
    expected = MapScorer(*sides, threshold)
    moved, other = (item._source.moved_into(item._target, motions) for item in (scorer, expected))
    assert moved.fit.shape == moved.covered.shape == (len(motions.translation), count)
    assert moved.fit[0].max() > 0.99  # lines that both maps have, where the maps were drawn
    torch.testing.assert_close(moved.fit, other.fit, rtol=0, atol=2e-3)
    assert (moved.covered != other.covered).double().mean() < 1e-3  # points on the border of a cell
    volumes = scorer.shared_volume(motions), expected.shared_volume(motions)
    for name in VOLUME_EVIDENCE:
        first, second = (getattr(volume, name) for volume in volumes)
        torch.testing.assert_close(first, second, rtol=1e-3, atol=2e-2)


def test_partners_outside_the_core_are_found(monkeypatch):
    source, target = maps("segments", 200)
    cores = source[torch.arange(0, 200, 2)], target[torch.arange(1, len(target), 2)]
    scorer = MapScorer(*cores, InlierThreshold(0.03, 0.14), partners=(source, target))
    plain(monkeypatch)
    expected = MapScorer(*cores, InlierThreshold(0.03, 0.14), partners=(source, target))
    torch.testing.assert_close(scorer.scores(poses()), expected.scores(poses()), rtol=1e-4, atol=1e-3)


def test_every_partner_within_the_angle_is_compared():
    source, target, pose, _ = matched_lines(300, position=0.01, degrees=1.0)
    for angle in (0.02, 0.1, 0.5, 1.5):
        threshold = InlierThreshold(0.3, angle)
        near = Pose.exp(angle * 0.3 * torch.randn(10, 6, generator=torch.Generator().manual_seed(1)).double())
        motions = near @ stacked([pose] * 10)
        scorer = MapScorer(source, target, threshold)
        squares = verification.pair_residuals(motions, source, target, threshold)
        rows = torch.arange(256) * 300 // 256
        expected = (1 - squares[:, rows].amin(2)).clamp_min(0).mean(1) * 300
        torch.testing.assert_close(scorer.explained(motions).source.double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["segments", "infinite"])
def test_no_poses_and_poses_that_are_not_finite(kind):
    scorer = MapScorer(*maps(kind, 30), InlierThreshold(0.03, 0.14))
    assert scorer.scores(poses()[:0]).shape == (0,)
    motions = poses()
    for value in (torch.nan, torch.inf, 1e30):
        broken = Pose(motions.rotation, motions.translation * value + value)
        assert float(scorer.explained(broken).lines.abs().max()) == 0
        scorer.explained(Pose(motions.rotation * value, motions.translation))
