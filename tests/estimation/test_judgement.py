"""The verdict follows the evidence of all candidates, and the calibrations are those that were fitted."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from plueckernet.errors import InputError
from plueckernet.estimation.assessment import Assessment, assess
from plueckernet.estimation.evidence import Evidence, lateral_support
from plueckernet.estimation.judgement import (
    DESCRIPTOR_CALIBRATION,
    FEATURES,
    Calibration,
    JudgementSettings,
    Status,
    Weighing,
    judge,
    weigh,
)
from plueckernet.estimation.observability import MotionKind, UnobservableMotion
from plueckernet.estimation.pose_family import FamilySettings
from plueckernet.estimation.refinement import RefinedCandidate, Refinement
from plueckernet.geometry import Pose
from plueckernet.geometry.residuals import NoiseModel
from plueckernet.matchers import load_matcher

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
GOOD = Evidence(
    inliers=80,
    score=30.0,
    explained_fraction=0.6,
    source_explained=0.6,
    target_explained=0.6,
    smaller_explained=0.6,
    smaller_expected=50.0,
    stand_out=60.0,
    chance_lines=2.0,
    crowd_ratio=0.1,
    runner_up_ratio=0.3,
    deficit=0.0,
    lateral_support=30.0,
    whole_lines=40,
    volume_lines=60.0,
    volume_explained=36.0,
    volume_covered=55.0,
    rotation_deviation=0.002,
    matcher_agreement=0.5,
    matched_lines=40.0,
    chance_matches=0.5,
)
BY_CHANCE = replace(
    GOOD, inliers=5, score=1.5, stand_out=2.0, crowd_ratio=0.8, smaller_explained=0.2, matcher_agreement=0.01
)
SHIFT = UnobservableMotion(MotionKind.TRANSLATION, (0.0, 0.0, 1.0), None, 0.2, 3.0)
LEARNED = load_matcher("invariant").calibration


def verdict(*candidates, groups=None, calibration=LEARNED, **options):
    weighing = weigh(candidates, groups or range(len(candidates)), calibration)
    return judge(candidates[weighing.best], weighing, **options)


@pytest.mark.parametrize("name", ["descriptors", "invariant", "pluecker-indoor", "pluecker-outdoor"])
def test_calibrations_are_the_fitted_ones(name):
    """After plueckernet evaluate confidence."""
    document = json.loads((RESULTS / f"confidence_{name}.json").read_text())
    assert load_matcher(name).calibration == Calibration.from_dict(document["values"]["calibration"])


@pytest.mark.parametrize("calibration", [DESCRIPTOR_CALIBRATION, LEARNED], ids=["descriptors", "invariant"])
def test_more_evidence_is_more_confidence(calibration):
    base = replace(GOOD, stand_out=8.0, crowd_ratio=0.4, inliers=12)
    presence = calibration.presence_probability
    assert presence(replace(base, inliers=40)) > presence(base)
    assert presence(replace(base, crowd_ratio=0.8)) < presence(base)
    assert presence(replace(base, smaller_explained=0.9, explained_fraction=0.9)) > presence(base)
    agreeing = presence(replace(base, matcher_agreement=0.9))
    assert agreeing > presence(base) if "matcher_agreement" in calibration.presence else agreeing == presence(base)
    assert calibration.preference(replace(base, stand_out=20.0)) > calibration.preference(base)
    assert calibration.preference(replace(base, deficit=2.0)) < calibration.preference(base)


def test_lines_missing_where_both_maps_are_speak_against_a_pose():
    missing = replace(GOOD, volume_explained=18.0)
    assert LEARNED.preference(missing) < LEARNED.preference(GOOD)
    assert LEARNED.presence_probability(missing) < LEARNED.presence_probability(GOOD)
    empty = replace(GOOD, volume_covered=40.0)
    assert DESCRIPTOR_CALIBRATION.preference(empty) < DESCRIPTOR_CALIBRATION.preference(GOOD)


def test_of_two_poses_that_explain_as_much_the_one_that_shares_less_is_preferred():
    """Of a place that repeats itself, a wrong pose explains many lines because it has the maps overlap more."""
    larger = replace(GOOD, volume_lines=120.0, volume_explained=96.0)  # with as many lines missing
    assert LEARNED.preference(larger) < LEARNED.preference(GOOD)
    more = replace(larger, inliers=200, score=75.0, stand_out=150.0, whole_lines=100, smaller_expected=100.0)
    assert LEARNED.preference(more) > LEARNED.preference(GOOD)


@pytest.mark.parametrize(
    "calibration", [LEARNED, LEARNED.upright, LEARNED.infinite], ids=["any", "upright", "infinite"]
)
def test_what_speaks_for_a_pose_is_never_held_against_it(calibration):
    """A fit may weigh features against one another so that each counts the wrong way, and fails far from its pairs."""
    against = {
        "lead",
        "deficit",
        "chance_lines",
        "volume_lines",
        "volume_missing",
        "volume_empty",
        "rotation_deviation",
    }
    assert {name for name, weight in calibration.choice.items() if weight < 0} == against & calibration.choice.keys()


def test_missing_lines_are_counted_in_standard_deviations():
    few, many = replace(GOOD, volume_lines=5.0, volume_explained=2.0), replace(GOOD, volume_explained=24.0)
    assert FEATURES["volume_missing"](few) == pytest.approx(3 / 3)
    assert FEATURES["volume_missing"](many) == pytest.approx(36 / 8)  # the same fraction of 60 lines
    assert FEATURES["volume_empty"](GOOD) == pytest.approx(5 / 8)
    none = replace(GOOD, volume_lines=0.0, volume_explained=0.0, volume_covered=0.0)  # lines without ends
    assert FEATURES["volume_missing"](none) == FEATURES["volume_empty"](none) == 0


def test_a_pose_is_doubted_the_more_the_farther_it_is_behind_another():
    behind = [replace(GOOD, runner_up_ratio=ratio) for ratio in (0.5, 1.0, 1.5, 3.0)]
    best, even, half, third = map(DESCRIPTOR_CALIBRATION.preference, behind)
    assert best == even > half > third


@pytest.mark.parametrize("calibration", [DESCRIPTOR_CALIBRATION, LEARNED], ids=["descriptors", "invariant"])
def test_single_candidates(calibration):
    assert verdict(GOOD, calibration=calibration).status is Status.SUCCESS
    assert verdict(BY_CHANCE, calibration=calibration).status is Status.FAILED
    assert verdict(Evidence.nothing(), calibration=calibration).confidence == 0


def test_two_equal_candidates_are_ambiguous_and_share_the_probability():
    result = verdict(GOOD, GOOD)
    assert result.status is Status.AMBIGUOUS
    assert result.confidence == pytest.approx(LEARNED.presence_probability(GOOD) / 2)
    assert "another pose" in result.reason


def test_candidates_of_one_group_give_the_same_answer():
    assert verdict(GOOD, GOOD, groups=[0, 0]).status is Status.SUCCESS
    assert verdict(GOOD, GOOD, GOOD, groups=[0, 0, 1]).confidence == pytest.approx(
        2 / 3 * LEARNED.presence_probability(GOOD)
    )


def test_a_much_worse_candidate_changes_little():
    assert verdict(GOOD, BY_CHANCE).confidence == pytest.approx(verdict(GOOD).confidence, abs=1e-3)


def test_probabilities_exclude_one_another():
    weighing = weigh([BY_CHANCE, GOOD, replace(GOOD, score=25.0)], [0, 1, 2], LEARNED)
    assert weighing.best == 1
    assert weighing.presence == pytest.approx(sum(weighing.probabilities))
    assert weighing.presence == pytest.approx(LEARNED.presence_probability(GOOD))
    assert weigh([], [], LEARNED) == Weighing.nothing()


def test_an_unobservable_motion_is_named():
    result = verdict(GOOD, unobservable=(SHIFT,))
    assert result.status is Status.AMBIGUOUS
    assert "translation along (0.00, 0.00, 1.00)" in result.reason
    assert verdict(BY_CHANCE, unobservable=(SHIFT,)).status is Status.FAILED


def test_the_reason_tells_what_the_pose_rests_on():
    assert "80 lines coincide" in verdict(GOOD).reason
    assert "60.0 standard deviations" in verdict(GOOD).reason
    assert "confidence below 0.9" in verdict(BY_CHANCE).reason


@pytest.mark.parametrize(("inliers", "infinite", "status"), [
    (6, False, Status.SUCCESS), (5, False, Status.FAILED), (4, True, Status.SUCCESS), (3, True, Status.FAILED)
])  # fmt: skip
def test_few_lines_do_not_suffice_however_sure_and_fewer_do_without_ends(inliers, infinite, status):
    told = verdict(replace(GOOD, inliers=inliers), settings=JudgementSettings().where(infinite))
    assert (told.status, told.confidence > 0.9) == (status, True)


def test_without_a_calibration_the_verdict_says_so():
    assert not verdict(GOOD, calibrated=False).calibrated
    assert verdict(GOOD).calibrated


def test_the_required_confidence_is_a_setting():
    assert verdict(GOOD, settings=JudgementSettings(min_confidence=1.0)).status is Status.FAILED
    assert verdict(GOOD, GOOD, settings=JudgementSettings(min_confidence=0.4)).status is Status.SUCCESS
    with pytest.raises(InputError, match="min_confidence"):
        JudgementSettings(min_confidence=1.1)


@pytest.mark.parametrize(
    "document",
    [
        {"presence": {"surprise": 1.0}, "choice": {}, "fitted_on": ""},
        {"presence": {"constant": "many"}, "choice": {}, "fitted_on": ""},
        {"presence": {}, "choice": {"score": float("nan")}, "fitted_on": ""},
        {"presence": {}, "choice": {}},
        {"presence": [1.0], "choice": {}, "fitted_on": ""},
    ],
)
def test_a_calibration_that_makes_no_sense_is_refused(document):
    with pytest.raises(InputError):
        Calibration.from_dict(document)


def test_a_calibration_survives_json():
    assert Calibration.from_dict(json.loads(json.dumps(LEARNED.to_dict()))) == LEARNED


def test_special_cases_have_calibrations_of_their_own_where_there_are_any():
    upright, infinite = Calibration({"constant": 1.0}, {}), Calibration({"constant": 2.0}, {})
    whole = replace(LEARNED, upright=upright, infinite=infinite)
    assert whole.where(vertical_known=False, infinite=False) is whole
    assert whole.where(vertical_known=True, infinite=False) is upright
    assert whole.where(vertical_known=False, infinite=True) is infinite
    single = replace(LEARNED, upright=None, infinite=None)
    assert single.where(vertical_known=True, infinite=True) is single


def test_every_feature_is_finite_for_any_evidence():
    for evidence in (Evidence.nothing(), GOOD, BY_CHANCE, replace(GOOD, score=0.0, stand_out=-5.0)):
        assert all(abs(feature(evidence)) < 1e3 for feature in FEATURES.values())


def test_parallel_lines_have_no_lateral_support():
    along, across = torch.tensor([[1.0, 0.0, 0.0]] * 5), torch.tensor([[0.0, 0.6, 0.8]] * 2)
    assert lateral_support(along) == pytest.approx(0, abs=1e-6)
    assert lateral_support(torch.cat([along, across])) == pytest.approx(2, abs=1e-5)
    assert lateral_support(along[:0]) == 0


def test_evidence_that_is_not_a_number_is_no_evidence():
    broken = replace(GOOD, matcher_agreement=math.nan)
    assert LEARNED.presence_probability(GOOD) > 0.9
    assert LEARNED.presence_probability(broken) == 0.0
    assert weigh([broken], [0], LEARNED).confidence == 0.0
    assert weigh([broken, GOOD], [0, 1], LEARNED).best == 1


@pytest.mark.parametrize(
    ("changed", "firm"),
    [
        ({}, True),
        ({"lateral_support": 19.0}, False),
        ({"stand_out": 11.0}, False),
        ({"matcher_agreement": 0.5 * GOOD.matcher_agreement}, False),
        ({"score": 1.0}, True),
    ],
)
def test_a_runner_up_is_held_by_many_lines_however_few_of_the_best_pose(changed, firm):
    assert JudgementSettings().is_firm_runner_up(replace(GOOD, **changed), GOOD) is firm


@pytest.mark.parametrize(
    ("lines", "stand_out", "repeats"), [(60.0, 20.0, True), (49.0, 20.0, False), (60.0, 11.0, False)]
)
def test_a_place_repeats_itself_if_still_more_lines_hold_another_pose(lines, stand_out, repeats):
    other = replace(GOOD, lateral_support=lines, stand_out=stand_out)
    assert JudgementSettings().is_repetition(other) is repeats


LESS_OVERLAP = replace(GOOD, score=8.0, stand_out=25.0, runner_up_ratio=3.8, deficit=0.3, matcher_agreement=0.02)


@pytest.mark.parametrize(
    ("other", "doubtful"),
    [
        (LESS_OVERLAP, True),  # many lines hold it, however improbable it is
        (replace(LESS_OVERLAP, deficit=2.0), False),  # lines are missing that should be there
        (replace(LESS_OVERLAP, deficit=3.5, lateral_support=60.0), True),  # but so many hold it that the place repeats
        (replace(LESS_OVERLAP, deficit=4.5, lateral_support=60.0), False),
        (replace(LESS_OVERLAP, stand_out=8.0), False),
        (replace(LESS_OVERLAP, lateral_support=10.0), False),
        (replace(GOOD, lateral_support=19.0, matcher_agreement=0.02), True),  # as probable, if the matcher agreed
    ],
)
def test_another_pose_casts_doubt_if_lines_hold_it_or_if_the_matcher_may(other, doubtful):
    assessment, poses = assessed([GOOD, other])
    assert assessment.weighing.confidence > 0.9
    best = assessment.candidates[0].refinement
    doubts = assessment.doubts(best, JudgementSettings(), LEARNED, FamilySettings())
    assert doubts == ([poses[1]] if doubtful else [])


def test_a_member_of_a_family_is_exchangeable_unless_the_lines_make_it_improbable():
    chosen_by_the_matcher = replace(GOOD, matcher_agreement=0.9)
    assessment, poses = assessed([chosen_by_the_matcher, GOOD, LESS_OVERLAP])
    assert assessment.weighing.confidence > 0.6  # of the first
    lost = Pose.exp([0.0, 0.0, -1.5, 0.0, 0.0, 0.0])  # of which nothing is known
    assert assessment.comparable([*poses, lost], LEARNED) == [poses[1], lost]


def assessed(evidence: list[Evidence]) -> tuple[Assessment, list[Pose]]:
    """Candidates with their poses, which give different answers."""
    nothing = torch.zeros(6, 6, dtype=torch.float64), torch.zeros(0, 2, dtype=torch.int64), NoiseModel(), True
    poses = [Pose.exp([0.0, 0.0, 0.5 * row, 0.0, 0.0, 0.0]) for row in range(len(evidence))]
    candidates = [RefinedCandidate(1.0, 1.0, 0.0, Refinement(pose, *nothing)) for pose in poses]
    return assess(candidates, evidence, LEARNED), poses
