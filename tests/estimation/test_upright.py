"""Hypotheses of maps whose vertical is known."""

import math

import torch
from tests.estimation.similarity.test_scale_votes import scene

from plueckernet.estimation.direction_search import match_free_poses
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, RowScorer
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.upright import consistent_rows, made_upright, propose_upright_poses, same_turn_and_height
from plueckernet.geometry import Pose
from plueckernet.geometry.pose import rotation_exp
from plueckernet.geometry.upright import tilt_cosine, turn_about

UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
TRUTH = Pose(turn_about(UP, torch.tensor(2.0, dtype=torch.float64)), torch.tensor([1.0, -2.0, 0.5]).double())
THRESHOLD = InlierThreshold(0.05, 0.14)


def rows(pose: Pose = TRUTH) -> tuple[AnchoredLines, AnchoredLines]:
    return AnchoredLines.of(scene()), AnchoredLines.of(pose @ scene())


def test_true_matches_need_the_same_turn_and_change_of_height() -> None:
    assert bool(same_turn_and_height(*rows(), THRESHOLD, UP).all())


def test_most_wrong_pairs_do_not() -> None:
    source, target = rows()
    shuffled = target[torch.randperm(len(target), generator=torch.Generator().manual_seed(0))]
    assert float(same_turn_and_height(source, shuffled, THRESHOLD, UP).float().mean()) < 0.4


def test_directions_keep_their_angle_to_the_vertical() -> None:
    source, target = (side.lines.direction for side in rows())
    consistent = consistent_rows(source, -target, 3 * UP, 0.14)
    assert bool(consistent.diagonal().all())
    assert float(consistent.float().mean()) < 0.7


def test_tilted_hypotheses_are_put_upright_about_the_lines_they_explain() -> None:
    source, target = rows()
    scorer = RowScorer(source, target, THRESHOLD)
    tilt = Pose(rotation_exp(torch.tensor([0.01, 0.0, 0.0]).double()), torch.zeros(3).double())
    upside_down = Pose(rotation_exp(torch.tensor([math.pi, 0.0, 0.0]).double()), torch.zeros(3).double())
    poses = [(motion @ TRUTH).to(torch.float32) for motion in (tilt, upside_down)]
    batch = Pose(torch.stack([pose.rotation for pose in poses]), torch.stack([pose.translation for pose in poses]))
    upright = made_upright(batch, scorer, UP)
    assert upright.rotation.shape[0] == 1
    torch.testing.assert_close(tilt_cosine(upright.rotation, UP.float()), torch.ones(1))
    probability = torch.ones(len(source)).double()
    assert float(scorer.scores(upright, probability)) > float(scorer.scores(batch[:1], probability))


def test_all_rounds_turn_about_the_vertical_and_reach_the_truth() -> None:
    maps = RegistrationSettings(up=(0.0, 0.0, 2.0)).normalize(scene(), TRUTH @ scene())
    matched = maps.match_scorer(torch.arange(60), torch.arange(60))
    truth = maps.normalized_pose(TRUTH)
    rounds = list(propose_upright_poses(maps, matched, torch.ones(60).double(), UP))
    assert len(rounds) == 2
    for hypotheses in rounds:
        poses = hypotheses.poses
        assert float((1 - tilt_cosine(poses.rotation, UP)).abs().max()) < 1e-5
        close = (poses.rotation @ truth.rotation.mT).diagonal(dim1=-2, dim2=-1).sum(-1) > 1 + 2 * math.cos(0.1)
        assert float((poses.translation - truth.translation).norm(dim=-1)[close].min()) < 0.1


def test_one_horizontal_direction_suffices_without_matches() -> None:
    """Two dominant directions are needed without a vertical, of which one may be the vertical itself."""
    lines = scene()
    level = lines[lines.direction[:, 0].abs() > 0.9].replaced(ids=None)
    maps = RegistrationSettings().normalize(level, TRUTH @ level)
    assert match_free_poses(maps.source, maps.target, maps.threshold).rotation.shape[0] == 0
    assert match_free_poses(maps.source, maps.target, maps.threshold, up=UP).rotation.shape[0] > 0
