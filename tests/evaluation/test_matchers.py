"""Matchers measured in small: synthetic scenes, crops, confidence, invariance; predictions are computed once."""

import json
import shutil
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import torch

from plueckernet.cli import main
from plueckernet.data import AnyProtocol, ScanProtocol, make_scene
from plueckernet.errors import InputError
from plueckernet.estimation.evidence import MATCH_EVIDENCE
from plueckernet.estimation.judgement import Calibration
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.evaluation.confidence import ConfidenceValues, features_of, write_calibration
from plueckernet.evaluation.crop_pairs import fingerprint, read_pairs, write_pairs
from plueckernet.evaluation.crop_results import OVERLAPS, CropValues
from plueckernet.evaluation.crops import fallen_short, sample_crops
from plueckernet.evaluation.documents import read_result
from plueckernet.evaluation.invariance import changes
from plueckernet.evaluation.metrics import pose_error
from plueckernet.evaluation.oracle import oracle_pose
from plueckernet.evaluation.protocols import draw_pair
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.reliability import reliability
from plueckernet.evaluation.synthetic import SyntheticValues
from plueckernet.geometry.residuals import NoiseModel
from plueckernet.matchers import MatchFrame, load_matcher
from plueckernet.models.weights import pretrained_path


def run(*arguments):
    with pytest.raises(SystemExit) as done:
        main(["evaluate", *map(str, arguments)])
    return done.value.code


def test_synthetic_scenes_are_registered_and_counted(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("plueckernet.evaluation.synthetic.UNRELATED_PAIRS", 1)
    monkeypatch.setattr("plueckernet.evaluation.synthetic.PROTOCOLS", {"keep 70 %": AnyProtocol(keep=0.7)})
    assert run("synthetic", "--matcher=descriptors", "--pairs=2", f"--out={tmp_path}") == 0
    path = tmp_path / "synthetic_descriptors.json"
    values = read_result(path, path.stem, SyntheticValues).values
    assert [(cell.scenes, cell.summary.registered) for cell in values.cells] == [("indoor", 2), ("outdoor", 2)]
    assert all(cell.summary.right == Rate(2, 2) for cell in values.cells)
    assert all(cell.over_bound is not None and max(cell.over_bound) < 3 for cell in values.cells)
    assert values.unrelated == Rate(0, 2)
    assert "wrong and called a success: 0 of" in capsys.readouterr().out


def test_the_papers_network_is_measured_on_its_own_protocol(tmp_path):
    assert run("synthetic", "--matcher=pluecker-outdoor", "--pairs=1", f"--out={tmp_path}") == 0
    path = tmp_path / "synthetic_pluecker-outdoor.json"
    values = read_result(path, "synthetic_pluecker-outdoor", SyntheticValues).values
    assert [(cell.scenes, cell.protocol) for cell in values.cells] == [("outdoor", "the paper's")]
    assert values.unrelated is None


def test_the_oracle_needs_no_frame(tmp_path):
    """Noise about the middle of a scene far from the origin is found where it acts."""
    pair = draw_pair(make_scene("outdoor", 3), AnyProtocol(), 4)
    turn, shift = pose_error(oracle_pose(pair, NoiseModel()), pair.target_T_source)
    assert turn < 1.0
    assert shift < 0.2


def test_crops_are_cut_once_and_registered(tmp_path, capsys):
    file = tmp_path / "pairs.npz"
    options = [f"--pairs-file={file}", f"--out={tmp_path}", "--matcher=descriptors"]
    assert run("crops", *options) == 2
    assert "--maps or --scenes" in capsys.readouterr().err
    maps = {f"varied/{seed}": make_scene("varied", seed) for seed in (600_000, 600_001)}
    with ThreadPoolExecutor(1) as pool:
        crops = sample_crops(maps, 4, pool)
    write_pairs(file, crops)
    assert run("crops", *options) == 0
    values = read_result(tmp_path / "crops_descriptors.json", "crops_descriptors", CropValues).values
    assert [cell.overlap for cell in values.totals] == list(OVERLAPS)
    assert sum(cell.summary.registered for cell in values.totals) == len(crops) == 4
    assert values.fingerprint == fingerprint(read_pairs(file)) == fingerprint(crops)
    assert fallen_short(crops) == []
    assert all(torch.equal(a.pair.matches, b.pair.matches) for a, b in zip(crops, read_pairs(file), strict=True))


def test_crops_of_other_processes_keep_no_files_open():
    """A system allows about a thousand open files, fewer than a few hundred pairs have tensors."""
    with ProcessPoolExecutor(1) as pool:
        (crop, *_) = sample_crops({"varied/600000": make_scene("varied", 600_000)}, 4, pool)
    assert not any(lines.endpoints.is_shared() for lines in (crop.pair.source, crop.pair.target))


def test_a_confidence_of_one_is_in_the_last_bin():
    (only,) = reliability(np.array([1.0]), np.array([True]))
    assert (only.low, only.high, only.right) == (0.97, 1.0, Rate(1, 1))


def test_the_confidence_is_calibrated_from_registrations(tmp_path, capsys, monkeypatch):
    from plueckernet.evaluation import confidence

    protocols = {MatchFrame.NORMALIZED: [AnyProtocol(keep=0.25), ScanProtocol(overlap=0.15), confidence.Unrelated()]}
    monkeypatch.setattr(confidence, "PROTOCOLS", protocols)
    monkeypatch.setattr(confidence, "KINDS", ("indoor", "outdoor"))  # varied scenes are large
    assert run("confidence", "--matcher=descriptors", "--pairs=2", f"--out={tmp_path}") == 0
    values = read_result(tmp_path / "confidence_descriptors.json", "confidence_descriptors", ConfidenceValues).values
    assert 0 < values.right.count < values.right.total <= 12
    presence, choice = set(values.calibration.presence), set(values.calibration.choice)
    assert {"constant", "inliers", "crowd_ratio", "rotation_deviation", "matcher_agreement"} < presence
    assert "deficit" in choice
    assert choice.isdisjoint(MATCH_EVIDENCE)  # the probabilities of like lines are alike
    assert "held-out half" in capsys.readouterr().out


def test_a_calibration_goes_onto_the_card(tmp_path):
    for suffix in (".safetensors", ".json"):
        shutil.copy(pretrained_path("invariant").with_suffix(suffix), tmp_path / f"mine{suffix}")
    upright = Calibration({"constant": 2.5}, {"score": 3.5}, "upright houses")
    infinite = Calibration({"constant": 3.5}, {"score": 4.5}, "endless houses")
    calibration = Calibration({"constant": 1.5}, {"score": 2.5}, "houses", upright, infinite)
    card = write_calibration(str(tmp_path / "mine.safetensors"), calibration)
    content = {"presence": {"constant": 1.5}, "choice": {"score": 2.5}, "fitted_on": "houses"}
    content["upright"] = {"presence": {"constant": 2.5}, "choice": {"score": 3.5}, "fitted_on": "upright houses"}
    content["infinite"] = {"presence": {"constant": 3.5}, "choice": {"score": 4.5}, "fitted_on": "endless houses"}
    assert json.loads(card.read_text())["calibration"] == content
    matcher = load_matcher(tmp_path / "mine.safetensors")
    assert matcher.calibration == calibration
    assert matcher.matching(RegistrationSettings()).calibration is matcher.calibration
    with pytest.raises(InputError, match="no card"):
        write_calibration("descriptors", calibration)


def test_answers_do_not_depend_on_unit_and_place():
    assert max(changes().values()) < 1e-6


def test_ends_and_volume_count_where_lines_have_them():
    for matcher in ("invariant", "descriptors"):
        segments, infinite = (features_of(matcher, infinite=without_ends) for without_ends in (False, True))
        assert {"many_whole_lines", "volume_missing", "volume_lines"} <= set(segments.choice)
        assert "volume_fraction" in segments.presence
        of_segments = {"whole_lines", "many_whole_lines", "volume_fraction", "volume_missing", "volume_lines"}
        assert not of_segments & {*infinite.choice, *infinite.presence}
        assert "lateral_support" in infinite.choice


def test_only_a_network_tells_which_pose_is_right():
    network, descriptors = map(features_of, ("invariant", "descriptors"))
    assert "matcher_agreement" in network.choice
    assert "matcher_agreement" not in descriptors.choice
    assert "matcher_agreement" in descriptors.presence
    assert "whole_lines" not in descriptors.presence
