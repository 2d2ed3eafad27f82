"""Metrics against their definitions; what has no pose counts against every one of them."""

import math

import numpy as np
import pytest
import torch

from plueckernet.evaluation.metrics import area_under_recall, pose_error, quartiles, recall, success_rate
from plueckernet.evaluation.rates import Rate
from plueckernet.geometry import Pose

VALUES = np.random.default_rng(0).exponential(size=37).tolist()


def test_pose_error_is_the_angle_and_the_distance():
    truth = Pose.random(generator=torch.Generator().manual_seed(0))
    off = Pose.exp(torch.tensor([0, 0, math.radians(3.0), 0, 0, 0], dtype=torch.float64))
    pose = Pose(truth.rotation @ off.rotation, truth.translation + torch.tensor([0.0, 0.3, 0.4], dtype=torch.float64))
    assert pose_error(pose, truth) == pytest.approx((3.0, 0.5))
    trace = float((truth.rotation.mT @ pose.rotation).trace())
    assert pose_error(pose, truth)[0] == pytest.approx(math.degrees(math.acos((trace - 1) / 2)))
    assert pose_error(None, truth) == (math.inf, math.inf)


def test_quartiles_are_numpys_and_know_infinity():
    assert quartiles(VALUES) == pytest.approx(np.percentile(VALUES, [25, 50, 75]))
    assert quartiles([1.0, 2.0, 3.0, math.inf, math.inf]) == (2.0, 3.0, math.inf)
    assert quartiles([]) == (math.inf,) * 3


def test_recall_counts_what_is_below():
    assert recall([1.0, 2.0, math.inf, 2.0], [0.0, 1.0, 2.0, 2.1, 1e9]).tolist() == [0, 0, 0.25, 0.75, 0.75]


def test_area_is_the_mean_recall():
    thresholds = np.linspace(0, 2.0, 20_001).tolist()
    assert area_under_recall(VALUES, 2.0) == pytest.approx(recall(VALUES, thresholds).mean(), abs=1e-3)
    assert area_under_recall([0.0], 1.0) == 1
    assert area_under_recall([math.inf, 5.0], 1.0) == 0


def test_success_needs_both():
    assert success_rate([(1.0, 0.1), (1.0, 0.6), (6.0, 0.1), (math.inf, math.inf)]) == Rate(1, 4)
    assert success_rate([(0.5, 0.2)], (1.0, 0.1)) == Rate(0, 1)
