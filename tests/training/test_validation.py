"""Validation tells right poses from wrong ones, by the pipeline that users run."""

import pytest
import torch
from tests.training.tiny import tiny
from torch import nn

from plueckernet.data.batches import PairBatch
from plueckernet.geometry import LineSet
from plueckernet.geometry.pose import quaternion_from_rotation
from plueckernet.models import MatchOutput
from plueckernet.models.regression import RegressedPose
from plueckernet.training.objective import match_quality, match_sums
from plueckernet.training.validation import Validation, Validator

CELLS = ("data.sizes=[48]", "data.surveys=0", "data.infinite=0", "data.keep=[0.8, 0.8]", "validation.pairs=2")


class Knows(nn.Module):
    """Knows the answers to the pairs it was shown; or mixes them up."""

    def __init__(self, batches: list[PairBatch], *, right: bool) -> None:
        super().__init__()
        self.batches, self.right = list(batches), right

    def forward(self, source: LineSet, target: LineSet) -> MatchOutput:
        batch = next(one for one in self.batches if one.source is source)
        truth = batch.correspondence if self.right else batch.correspondence.roll(7, -1)
        log_p = torch.where(truth, -0.01, -20.0)
        log_p = log_p.masked_fill(~(source.mask[:, :, None] & target.mask[:, None]), -torch.inf)
        return MatchOutput(log_p, truth.any(-1).float(), truth.any(-2).float())


def validator(*settings: str) -> Validator:
    return Validator(tiny(*CELLS, *settings).validation, torch.device("cpu"))


def judged(one: Validator, network: nn.Module) -> Validation:
    one.start(3, network)
    ((validation, weights),) = one.finished(wait=True)
    assert set(weights) == set(network.state_dict())
    one.close()
    return validation


def test_the_right_matches_give_the_right_poses():
    one = validator()
    validation = judged(one, Knows(one._cells["parts"], right=True))
    cell = validation.cells["parts"]
    assert (validation.step, validation.success) == (3, 1.0)
    assert cell["median_degrees"] < 2
    assert cell["median_metres"] < 0.3
    assert cell["precision"] == cell["recall"] == cell["average_precision"] == cell["eight_right"] == 1.0


def test_wrong_matches_give_no_success():
    one = validator()
    validation = judged(one, Knows(one._cells["parts"], right=False))
    assert validation.success == 0.0
    assert validation.cells["parts"]["precision"] == 0.0


def test_poses_estimated_by_processes_are_the_same():
    network = tiny().model.build(0)
    here, there = (judged(validator(f"validation.workers={count}"), network) for count in (0, 1))
    assert here == there


class Regresses(nn.Module):
    """Tells the true poses, a little off."""

    def __init__(self, batches: list[PairBatch], shift: float) -> None:
        super().__init__()
        self.batches, self.shift = list(batches), shift

    def forward(self, source: LineSet, target: LineSet) -> RegressedPose:
        pose = next(one for one in self.batches if one.source is source).target_T_source
        return RegressedPose(
            quaternion_from_rotation(pose.rotation), pose.translation + torch.tensor([self.shift, 0, 0])
        )


@pytest.mark.parametrize(("shift", "success"), [(0.4, 1.0), (0.6, 0.0)])
def test_regressed_poses_are_judged_as_they_are(shift, success):
    one = validator()
    validation = judged(one, Regresses(one._cells["parts"], shift))
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
    one = validator()
    (batch,) = one._cells["parts"]
    output = tiny().model.build(0)(batch.source, batch.target)
    log_p = nn.functional.pad(output.log_probability.detach(), (0, 5, 0, 3), value=-torch.inf)
    padded = nn.functional.pad(batch.correspondence, (0, 5, 0, 3))
    plain = match_sums(output.log_probability.detach(), batch.correspondence)
    torch.testing.assert_close(match_sums(log_p, padded), plain)
