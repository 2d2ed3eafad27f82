"""Kept evidence judged with another ``min_confidence``."""

import math
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from benchmarks.min_confidence import Setting, is_given, measured

from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import Calibration
from plueckernet.evaluation.predictions import PredictedCandidate

IDENTITY = tuple(tuple(float(i == j) for j in range(4)) for i in range(4))
BY_INLIERS = Calibration({"constant": -math.log(9), "inliers": 1.0}, {"constant": 0.0})  # 80 give 0.9, 20 give 0.7
RIGHT, WRONG = (0.0, 0.0), (90.0, 3.0)


def entry(inliers: int, error: tuple[float, float] = RIGHT, others: int = 0) -> SimpleNamespace:
    """A registration with as many more candidates that are as probable."""
    evidence = asdict(Evidence.nothing()) | {"inliers": inliers}
    candidates = tuple(PredictedCandidate(IDENTITY, evidence, group) for group in range(1 + others))
    return SimpleNamespace(candidates=candidates if inliers else (), error=error, best_error=error, pose=IDENTITY)


@pytest.mark.parametrize(("inliers", "level", "given"), [(85, 0.9, True), (85, 0.91, False), (25, 0.7, True)])
def test_a_pose_is_given_if_its_evidence_suffices(inliers, level, given):
    assert is_given(entry(inliers), BY_INLIERS, level) is given


def test_several_poses_of_which_one_is_right_are_given():
    assert is_given(entry(85, others=3), BY_INLIERS, 0.9)


def test_too_few_lines_and_no_candidate_give_nothing():
    assert not is_given(entry(3), BY_INLIERS, 0.0)
    assert not is_given(entry(0), BY_INLIERS, 0.0)


def test_a_lower_level_gives_more_right_and_more_wrong_poses():
    ours = [entry(100)] * 10 + [entry(30)] * 8 + [entry(30, WRONG)] + [entry(0, WRONG)]
    other = [entry(1)] * 18 + [entry(1, WRONG)] * 2
    setting = Setting("overlap, indoor", "0", ours, {"pluecker": other, "icl": [entry(1, WRONG)] * 20})
    strict, lenient = (measured([setting], BY_INLIERS, level) for level in (0.9, 0.7))
    assert (strict["given"], strict["wrong"], strict["worse"]) == (10, 0, 1)
    assert (lenient["given"], lenient["wrong"], lenient["worse"], lenient["level"]) == (19, 1, 0, 1)
    assert strict["worse_in"] == ["overlap, indoor, 0: 10 of 20 right, PlückerNet 18"]
