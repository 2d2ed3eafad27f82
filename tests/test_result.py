"""A saved result comes back as it was; results of the previous schema are still read."""

import json
from dataclasses import replace

import pytest
import torch
from tests.estimation.lines_for_tests import errors

from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.errors import FormatError
from plueckernet.registration import register
from plueckernet.result import RegistrationResult, Status

SCHEMA_1 = {
    "schema": 1,
    "version": "0.1.0",
    "status": "success",
    "reason": "9 lines coincide",
    "confidence": 0.95,
    "evidence": {
        "inliers": 1, "share": 0.6, "rival": 0.7, "balance": 0.9, "borne_out": 0.8, "held": 4.0, "agreement": None,
    },
    "target_T_source": torch.eye(4).tolist(),
    "covariance": torch.eye(6).tolist(),
    "sigmas": [1.0, 0.1],
    "num_lines": [9, 10],
    "num_matches": 1,
    "num_inliers": 1,
    "score": 5.0,
    "noise": [0.01, 0.5],
    "matches": [[0, 1]],
    "inliers": [[0, 1]],
    "residuals": [[0.01, 0.2]],
    "alternatives": [{"target_T_source": torch.eye(4).tolist(), "score": 2.0}],
    "timings": {"match": 0.1},
    "settings": {"position_tolerance": 0.2, "angle_tolerance": 8.0, "directed": False},
    "seed": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def result() -> RegistrationResult:
    pair = sample_pair(make_scene("indoor", 7), ScanProtocol(overlap=0.6), 7)
    return register(pair.source, pair.target)


def test_a_round_trip_changes_nothing(result, tmp_path):
    result.save(tmp_path / "result.json")
    again = RegistrationResult.load(tmp_path / "result.json")
    assert json.dumps(again.to_dict()) == json.dumps(result.to_dict())
    assert again.sigmas() == result.sigmas()
    assert again.evidence == result.evidence
    assert max(errors(again.target_T_source, result.target_T_source)) == 0


def test_the_document_has_the_schema_and_what_it_rests_on(result):
    document = result.to_dict()
    assert document["schema"] == 2
    assert document["matcher"] == "invariant"
    assert document["calibrated"] is True
    assert document["num_inliers"] == len(document["inliers"]) == len(result.inliers)
    assert document["settings"]["inlier_distance"] > 0


def test_the_previous_schema_is_read(tmp_path):
    path = tmp_path / "old.json"
    path.write_text(json.dumps(SCHEMA_1))
    result = RegistrationResult.load(path)
    assert result.status is Status.SUCCESS
    assert result.evidence.score == result.score
    assert result.evidence.explained_fraction == 0.8
    assert result.evidence.runner_up_ratio is None  # 0.7 stood for a pose that was not found
    assert result.settings["inlier_distance"] == 0.2
    assert not result.calibrated
    assert result.to_dict()["schema"] == 2
    assert result.warnings == ()


def test_warnings_are_kept(result, tmp_path):
    warned = replace(result, warnings=("The source looks 1000 times larger than the target.",))
    warned.save(tmp_path / "warned.json")
    assert RegistrationResult.load(tmp_path / "warned.json").warnings == warned.warnings


@pytest.mark.parametrize("status", Status)
def test_a_result_is_true_if_its_pose_is_accepted(result, status):
    assert bool(replace(result, status=status)) is (status is Status.SUCCESS)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": 3}', '{"schema": 2}', json.dumps(SCHEMA_1 | {"covariance": "none"})]
)
def test_anything_else_is_refused(text, tmp_path):
    path = tmp_path / "no_result.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"no_result\.json"):
        RegistrationResult.load(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"nothing\.json"):
        RegistrationResult.load(tmp_path / "nothing.json")
