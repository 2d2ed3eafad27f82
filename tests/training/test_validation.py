"""Validation separates correct from wrong poses with the pipeline that users run."""

from itertools import combinations

import pytest
import torch
from tests.training.tiny import stream, tiny
from torch import nn

from plueckernet.data import AnyProtocol, make_scene, sample_pair
from plueckernet.data.batches import PairBatch
from plueckernet.geometry import LineSet, Pose, stack_lines
from plueckernet.geometry.pose import quaternion_from_rotation
from plueckernet.models import MatchOutput
from plueckernet.models.regression import RegressedPose
from plueckernet.training.objective import match_quality, match_sums
from plueckernet.training.validation import Validation, Validator


def houses(count: int = 2) -> PairBatch:
    """Parts of houses that can be registered with known matches."""
    pairs = []
    for seed in range(1, count + 1):
        scene = make_scene("indoor", seed)
        longest = scene[scene.lengths().topk(80).indices]
        pairs.append(sample_pair(longest, AnyProtocol(keep=0.8, segments=True), seed))
    sides = [stack_lines([getattr(pair, side) for pair in pairs]) for side in ("source", "target")]
    same = torch.zeros(count, len(sides[0]), len(sides[1]), dtype=torch.bool)
    for row, pair in zip(same, pairs, strict=True):
        row[pair.matches[:, 0], pair.matches[:, 1]] = True
    poses = Pose.from_matrix(torch.stack([pair.target_T_source.matrix() for pair in pairs]))
    return PairBatch(sides[0], sides[1], same, poses)


class Knows(nn.Module):
    """Returns the true matches of known pairs, or wrong ones."""

    def __init__(self, batches: list[PairBatch], *, right: bool) -> None:
        super().__init__()
        self.batches, self.right = list(batches), right

    def forward(self, source: LineSet, target: LineSet) -> MatchOutput:
        batch = next(batch for batch in self.batches if batch.source is source)
        truth = batch.correspondence if self.right else batch.correspondence.roll(7, -1)
        log_p = torch.where(truth, -0.01, -20.0)
        log_p = log_p.masked_fill(~(source.mask[:, :, None] & target.mask[:, None]), -torch.inf)
        return MatchOutput(log_p, truth.any(-1).float(), truth.any(-2).float())


def validator(*settings: str) -> Validator:
    """A validator with one cell of houses."""
    built = Validator(tiny(*settings).validation, torch.device("cpu"))
    built._cells = {"parts": [houses()]}
    return built


def validated(tested: Validator, network: nn.Module) -> Validation:
    tested.start(3, network)
    ((validation, weights),) = tested.finished(wait=True)
    assert set(weights) == set(network.state_dict())
    tested.close()
    return validation


def test_the_right_matches_give_the_right_poses():
    tested = validator()
    validation = validated(tested, Knows(tested._cells["parts"], right=True))
    cell = validation.cells["parts"]
    assert (validation.step, validation.success) == (3, 1.0)
    assert cell["median_degrees"] < 2
    assert cell["median_metres"] < 0.3
    assert cell["precision"] == cell["recall"] == cell["average_precision"] == cell["eight_right"] == 1.0


def test_wrong_matches_have_no_precision():
    """The pose may still be right: where matches explain nothing, the search goes on without them."""
    tested = validator()
    validation = validated(tested, Knows(tested._cells["parts"], right=False))
    assert validation.cells["parts"]["precision"] == 0.0
    assert validation.cells["parts"]["recall"] == 0.0


def test_poses_estimated_by_processes_are_the_same():
    network = tiny().model.build(0)
    here, there = (validated(validator(f"validation.workers={count}"), network) for count in (0, 1))
    assert here == there


class Regresses(nn.Module):
    """Returns the true poses with an offset."""

    def __init__(self, batches: list[PairBatch], shift: float) -> None:
        super().__init__()
        self.batches, self.shift = list(batches), shift

    def forward(self, source: LineSet, target: LineSet) -> RegressedPose:
        pose = next(batch for batch in self.batches if batch.source is source).target_T_source
        return RegressedPose(
            quaternion_from_rotation(pose.rotation), pose.translation + torch.tensor([self.shift, 0, 0])
        )


@pytest.mark.parametrize(("shift", "success"), [(0.4, 1.0), (0.6, 0.0)])
def test_regressed_poses_are_evaluated_directly(shift, success):
    tested = validator()
    validation = validated(tested, Regresses(tested._cells["parts"], shift))
    assert validation.success == success
    assert validation.cells["parts"]["median_metres"] == pytest.approx(shift, abs=1e-4)
    assert "precision" not in validation.cells["parts"]


def test_the_better_success_wins_and_then_the_better_matches():
    def made(success: float, average: float) -> Validation:
        return Validation(1, {"a": {"success": success, "average_precision": average, "loss": 1.0}})

    ranks = [made(*numbers).rank for numbers in ((0.5, 0.9), (0.6, 0.1), (0.6, 0.2))]
    assert ranks == sorted(ranks)


def test_match_quality_by_hand():
    """Of four source lines three have a match; two of three mutual matches are right, the second best is wrong."""
    truth = torch.zeros(1, 4, 4, dtype=torch.bool)
    truth[0, [0, 1, 2], [0, 1, 2]] = True
    log_p = torch.full((1, 4, 4), -9.0)
    log_p[0, 0, 0], log_p[0, 3, 3], log_p[0, 1, 1], log_p[0, 2, 1] = -0.1, -0.2, -0.3, -0.4
    quality = match_quality(match_sums(log_p[:, :, :], truth), pairs=1)
    assert quality["precision"] == pytest.approx(2 / 3)
    assert quality["recall"] == pytest.approx(2 / 3)
    assert quality["average_precision"] == pytest.approx((1 + 2 / 3) / 3)
    assert quality["eight_right"] == 0.0


def test_padding_changes_no_quality():
    batch = houses(1)
    log_p = tiny().model.build(0)(batch.source, batch.target).log_probability.detach()
    padded = nn.functional.pad(log_p, (0, 5, 0, 3), value=-torch.inf)
    same = nn.functional.pad(batch.correspondence, (0, 5, 0, 3))
    torch.testing.assert_close(match_sums(padded, same), match_sums(log_p, batch.correspondence))


def test_cells_have_their_own_held_out_pairs():
    config = tiny("validation.pairs=3", "validation.cells.others.scenes=['indoor']")
    cells = Validator(config.validation, torch.device("cpu"))._cells
    assert [sum(len(batch.correspondence) for batch in batches) for batches in cells.values()] == [3, 3]
    shown = [*(batches[0] for batches in cells.values()), stream(config).batch(0)]
    firsts = [batch.source.direction[0, 0] for batch in shown]
    assert not any(torch.equal(first, second) for first, second in combinations(firsts, 2))
