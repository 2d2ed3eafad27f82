"""Acceptance in small: files and maps laid out as the measured ones, counts, pictures, places that are left out."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.evaluation.small import town

from plueckernet.cli import main
from plueckernet.data.protocols import AnyProtocol, LinePair, ScanProtocol
from plueckernet.data.scenes import make_scene
from plueckernet.errors import FormatError, InputError
from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import FEATURES, Calibration, JudgementSettings, Status
from plueckernet.evaluation import acceptance_pairs, confidence
from plueckernet.evaluation.acceptance import AcceptanceData, Calibrations, acceptance_values, read_calibrations
from plueckernet.evaluation.acceptance_pairs import GROUPS, CropArchive, LabelledCrops, MapCases
from plueckernet.evaluation.acceptance_pictures import picture_name, save_picture
from plueckernet.evaluation.acceptance_rows import acceptance_lines, acceptance_rows
from plueckernet.evaluation.acceptance_values import AcceptanceValues, Judged, LeftOutCrops, judged, offenders
from plueckernet.evaluation.confidence import CalibrationData, evaluate_confidence
from plueckernet.evaluation.confidence_figure import CROPS, REAL, SYNTHETIC, interval, reliability_figure
from plueckernet.evaluation.confidence_samples import FeatureNames, Sample, Samples, count_kinds, judge_samples
from plueckernet.evaluation.crop_pairs import CropPair, write_pairs
from plueckernet.evaluation.documents import read_result, write_result
from plueckernet.evaluation.methods import register_method, uncalibrated_method
from plueckernet.evaluation.missed_poses import missed_poses
from plueckernet.evaluation.plots import save_figure
from plueckernet.evaluation.predictions import Cell, PredictedCandidate, Prediction, predict
from plueckernet.evaluation.protocols import LabelledPair, Recorded
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.real_pairs import PairKind, RealPairs
from plueckernet.evaluation.reliability import (
    adaptive_calibration_error,
    calibration_error,
    measured_reliability,
)
from plueckernet.evaluation.runner import Runner, RunSettings
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import write_lines
from plueckernet.matchers import MatchFrame

UNIT = 1e-4


def archive(path: Path, places: tuple[str, ...] = ("hall", "3dlines")) -> list[LabelledPair]:
    """A file of crops with one pair for each place, and what it was made of."""
    pairs = [RealPairs(PairKind.DETAILS).labelled(2 + i) for i in range(len(places))]
    sides = {name: [getattr(pair, name).endpoints for pair in pairs] for name in ("source", "target")}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        **{name: (torch.cat(rows) / UNIT).round().numpy().astype(np.int32) for name, rows in sides.items()},
        **{f"{name}_count": np.array([len(entry) for entry in rows]) for name, rows in sides.items()},
        target_T_source=torch.stack([pair.target_T_source.matrix() for pair in pairs]).numpy(),
        place=np.array(places),
        share_low=np.array([0.5, 0.1][: len(pairs)]),
        share_high=np.array([0.8, 0.2][: len(pairs)]),
        in_common=np.array([len(pair.matches) for pair in pairs]),
    )
    return pairs


def constant(weight: float, choice: dict[str, float] | None = None) -> Calibration:
    """The same for all evidence, but for the choice between candidates."""
    return Calibration({"constant": weight}, choice or {"constant": 0.0})


def small_scene(seed: int, lines: int = 60) -> LineSet:
    scene = make_scene("indoor", seed)
    return scene[scene.lengths().topk(lines).indices].replaced(ids=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every file that is measured, replaced by small scenes in the frames of the originals."""
    root = tmp_path_factory.mktemp("data")
    archive(root / "crops" / "pairs.npz")
    for name in ("lines/bim", "lines/town", "more_lines/fzk_house", "more_lines/icl_office", "more_lines/ingolstadt"):
        (root / name).mkdir(parents=True)
    house, office = small_scene(1), small_scene(2)
    for name, height in (("lod2", 0.0), ("lod3_ade20", 112.0), ("lod3_multizone", 110.0), ("lod3_v2", 0.0)):
        shift = torch.tensor([0.0, 0.0, -height], dtype=torch.float64)
        write_lines(root / "more_lines/fzk_house" / f"fzk_{name}.txt", house.shifted(shift))
    for i, offset in enumerate(acceptance_pairs._OFFICE):
        moved = office.shifted(-torch.tensor(offset, dtype=torch.float64))
        write_lines(root / "more_lines/icl_office" / f"office{i}.txt", moved)
    write_lines(root / "lines/bim/house.npz", make_scene("indoor", 3))
    for seed in (4, 5):
        write_lines(root / "lines/town" / f"{seed}.npz", town(seed))
    street = town(6)
    building = (torch.arange(len(street)) % 2).numpy().astype(np.int16)
    np.savez(root / "more_lines/ingolstadt/street.npz", endpoints=street.endpoints.numpy(), building=building)
    return root


def candidate(matrix: list[list[float]], group: int = 0, **evidence: float) -> PredictedCandidate:
    """A pose that explains seven lines, or something else."""
    kept = asdict(Evidence.nothing()) | {"inliers": 7, "lateral_support": 9.0} | evidence
    return PredictedCandidate(tuple(map(tuple, matrix)), kept, group)


def prediction(pair: LabelledPair, **changes: object) -> Prediction:
    """What a perfect method says about a pair, or something else."""
    truth = tuple(map(tuple, pair.target_T_source.matrix().tolist()))
    family = () if pair.family is None else tuple(tuple(map(tuple, rows)) for rows in pair.family.matrix().tolist())
    entry = Prediction(
        pair=0, status="found", accepted=True, reason="", truth=truth if pair.related else None, pose=truth, best=truth,
        lines=(len(pair.source), len(pair.target)), common=0, common_lines=0, matches=0, right=0, putative=0,
        putative_right=0, seconds={"pose": 0.5}, matchable=None, unmatchable=None, squared_error=None,
        verdict="success", exchangeable=1, unobservable=False, candidates=(candidate(truth),),
        places=pair.places, band=pair.band, family=family, free_direction=None,
    )  # fmt: skip
    return replace(entry, **changes)


def test_an_archive_is_read_with_the_source_about_its_centre(tmp_path):
    pairs = archive(tmp_path / "pairs.npz")
    dataset = CropArchive(tmp_path / "pairs.npz")
    assert dataset.size(Recorded()) == 2
    for i, original in enumerate(pairs):
        pair = dataset.pair(Recorded(), i)
        assert float(pair.source.centre().norm()) < 1e-9
        moved, expected = pair.target_T_source @ pair.source, original.target_T_source @ original.source
        assert torch.allclose(moved.midpoints(), expected.midpoints(), atol=1e-3)
    assert dataset.pair(Recorded(), 1).places == ("3dlines",)
    assert dataset.pair(Recorded(), 0).band == "0.5 to 0.8 in common"


def test_a_file_that_has_no_pairs_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", source=np.zeros(3))
    with pytest.raises(FormatError, match="missing"):
        CropArchive(tmp_path / "other.npz").pair(Recorded(), 0)


@pytest.mark.parametrize("group", [group for group in GROUPS if not group.startswith("CityJSON")])
def test_the_true_pose_aligns_whole_maps(group, folder):
    dataset = MapCases(folder, group)
    size = dataset.size(Recorded()) or 0
    assert size % acceptance_pairs.REPETITIONS == 0
    for i in (0, size - 1):
        pair = dataset.pair(Recorded(), i)
        moved = pair.target_T_source @ pair.source
        assert float(pair.source.centre().norm()) < 1e-6
        nearest = torch.cdist(moved.midpoints(), pair.target.midpoints()).amin(1)
        assert float(nearest.median()) < 0.06
    first, again = dataset.pair(Recorded(), 0), dataset.pair(Recorded(), 0)
    assert torch.equal(first.target_T_source.matrix(), again.target_T_source.matrix())
    assert not torch.equal(first.target_T_source.rotation, dataset.pair(Recorded(), size - 1).target_T_source.rotation)


def test_a_folder_without_maps_is_refused(tmp_path):
    with pytest.raises(InputError, match="fzk_house"):
        MapCases(tmp_path, "FZK house, LoD 3").config()


def test_a_wrong_success_is_listed_and_drawn(tmp_path):
    pair = RealPairs(PairKind.DETAILS).labelled(1)
    wrong = Pose.random(generator=torch.Generator().manual_seed(3), translation=20.0).matrix().tolist()
    truth = pair.target_T_source.matrix().tolist()
    row = Judged(prediction(pair, candidates=(candidate(truth), candidate(wrong))), Status.SUCCESS, 0.97, best=1)
    right = Judged(prediction(pair), Status.SUCCESS, 0.99)
    (entry,) = offenders("crops", [row, right])
    assert (entry.places, entry.confidence, entry.inliers, entry.candidate) == (("window grid",), 0.97, 7, 1)
    assert (row.right, row.listed) == (False, True)
    assert entry.error is not None
    assert entry.error[0] > 5
    path = tmp_path / "pictures" / picture_name("invariant", entry)
    save_picture(path, entry, pair, row.prediction)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_wrong_best_pose_tells_whether_the_right_one_was_only_not_proposed(tmp_path):
    """The search is given the right pose of one pair, and a pose that the lines contradict for the other."""
    crops = CropArchive(tmp_path / "pairs.npz")
    archive(crops.file)
    known = crops.pair(Recorded(), 0)
    other = Pose.random(generator=torch.Generator().manual_seed(3), translation=20.0)

    class Told(CropArchive):
        def pair(self, protocol, index):
            return replace(known, target_T_source=known.target_T_source if index == 0 else other)

    wrong = candidate(other.matrix().tolist())
    rows = [
        Judged(prediction(known), Status.SUCCESS, 0.99),
        Judged(prediction(known, candidates=(wrong,), best=wrong.pose), Status.FAILED, 0.2),
        Judged(replace(prediction(known, candidates=(wrong,)), pair=1), Status.FAILED, 0.2),
    ]
    missed = missed_poses("crops", Told(crops.file), rows, "descriptors", None)
    assert [(entry.index, entry.listed, entry.preferred) for entry in missed] == [(0, False, True), (1, True, False)]
    values = replace(
        acceptance_values("x", "", dict.fromkeys((*GROUPS, "crops", "symmetric", "unrelated"), rows)),
        missed=tuple(missed),
    )
    text = "2 of 3 (66.7 %); right one listed: 1; right one best where the search is given it: 1"
    assert text in [row.measured for row in acceptance_rows(values)]


def test_a_success_of_a_symmetric_pair_is_listed_though_its_pose_is_right():
    pair = RealPairs(PairKind.SYMMETRIC).labelled(5)  # a cube
    assert pair.family is not None
    other = candidate(pair.family[3].matrix().tolist())
    row = Judged(prediction(pair, candidates=(other,)), Status.SUCCESS, 0.95)
    assert row.right
    assert len(offenders("symmetric", [row])) == 1
    assert not offenders("symmetric", [replace(row, status=Status.AMBIGUOUS)])


def test_values_count_bands_groups_shapes_and_unrelated(tmp_path):
    crops = CropArchive(tmp_path / "pairs.npz")
    archive(crops.file)
    cube, unrelated = RealPairs(PairKind.SYMMETRIC).labelled(5), RealPairs(PairKind.DETAILS).labelled(0)
    unrelated = replace(unrelated, related=False)
    rows = {group: [Judged(prediction(unrelated), Status.AMBIGUOUS, 0.5)] for group in GROUPS}
    rows["crops"] = [Judged(prediction(crops.pair(Recorded(), i)), Status.SUCCESS, 0.9) for i in (0, 1)]
    rows["symmetric"] = [Judged(prediction(cube), Status.AMBIGUOUS, 0.5)]
    rows["unrelated"] = [
        Judged(prediction(unrelated), Status.SUCCESS, 0.9),
        Judged(prediction(unrelated), Status.FAILED, 0.0),
    ]
    values = acceptance_values("invariant", "nothing", rows)
    assert [group.name for group in values.crops] == ["0.5 to 0.8 in common"]
    assert [str(group.right_and_called) for group in values.parallel_crops] == ["1 of 1 (100 %)"]
    assert (str(values.unrelated.called), values.unrelated.min_inliers) == ("1 of 2 (50.0 %)", 7)
    assert [str(shape.listed) for shape in values.shapes] == ["1 of 24 (4.2 %)"]
    assert values.crop_seconds == 0.5
    assert values.crop_reliability.ece == pytest.approx(0.1)
    assert len(acceptance_rows(values)) == 1 + 1 + 2 + len(GROUPS) + 1 + 1 + 1
    assert "| unrelated | 0 |" in "\n".join(acceptance_lines(values))


def test_crops_are_judged_without_their_map():
    sure, unsure = constant(5.0), constant(-5.0)
    calibrations = Calibrations(sure, {"bim/duplex_edges": unsure, "fzk": sure, "town/3": sure})
    assert calibrations.of_map("duplex_ed") is unsure  # file names may be cut short
    assert calibrations.of_map("AC20-FZK-Haus_edge") is sure
    assert calibrations.of_map("elsewhere") is None


def test_own_crops_are_counted_by_band(tmp_path):
    pairs = [
        LinePair(pair.source, pair.target, pair.target_T_source, pair.matches) for pair in archive(tmp_path / "a.npz")
    ]
    write_pairs(tmp_path / "own.npz", [CropPair("hall", 2 * i, pair) for i, pair in enumerate(pairs)])
    dataset = LabelledCrops(tmp_path / "own.npz")
    assert dataset.size(Recorded()) == 2
    own = [dataset.pair(Recorded(), i) for i in (0, 1)]
    assert [pair.band for pair in own] == ["0.5 to 0.8 in common", "0.2 to 0.3 in common"]
    rows = {name: [] for name in (*GROUPS, "crops", "symmetric", "unrelated")}
    values = acceptance_values(
        "x", "", rows | {"own crops": [Judged(prediction(pair), Status.FAILED, 0.1) for pair in own]}
    )
    assert [(group.right.count, group.called) for group in values.own_crops] == [(1, 0), (1, 0)]
    assert any("own crops, 0.2 to 0.3" in row.what for row in acceptance_rows(values))
    assert "own crops" in AcceptanceData(tmp_path, crops=tmp_path / "own.npz").datasets()


def test_the_diagram_shows_groups_and_intervals(tmp_path):
    real = measured_reliability(np.array([0.1, 0.9, 0.95]), np.array([False, True, True]))
    values = confidence.ConfidenceValues(
        "invariant", constant(1.0), Rate(2, 3), real.bins, 0.1,
        confidence.RealReliability(real, real, real, ()),
    )  # fmt: skip
    figure = reliability_figure({"invariant": values, "descriptors": replace(values, real=None)})
    assert [axes.get_title(loc="left") for axes in figure.axes] == [CROPS, REAL, SYNTHETIC]
    low, high = interval(Rate(9, 10))
    assert (low, high) == pytest.approx((0.596, 0.982), abs=0.001)
    assert interval(Rate(0, 0)) == (0.0, 1.0)
    save_figure(figure, tmp_path / "figure")
    assert (tmp_path / "figure.png").exists()


def test_the_command_measures_everything_once(folder, tmp_path, capsys, monkeypatch):
    few = {group: GROUPS[group] for group in ("ICL office", "FZK house, LoD 2 in LoD 3")}
    for module in ("acceptance", "acceptance_pairs"):
        monkeypatch.setattr(f"plueckernet.evaluation.{module}.GROUPS", few)
    command = ["evaluate", "acceptance", f"--data={folder}", f"--out={tmp_path}", "--matcher=descriptors", "--pairs=2"]
    for _ in range(2):  # the second run reads what the first one kept
        with pytest.raises(SystemExit) as done:
            main([*command, "--unrelated=1", "--symmetric=1"])
        assert done.value.code == 0
    values = read_result(tmp_path / "acceptance_descriptors.json", "acceptance_descriptors", AcceptanceValues).values
    assert [group.right.total for group in values.maps] == [2, 2]
    assert sum(group.right.total for group in (*values.crops, *values.parallel_crops)) == 2
    assert "unrelated real maps" in capsys.readouterr().out


def test_predictions_outlive_another_calibration():
    pair = RealPairs(PairKind.DETAILS)
    method = uncalibrated_method("descriptors")
    entry = predict(Cell(pair, Recorded(), method), method.load(), 2)
    never, always = (judged(entry, constant(weight)) for weight in (-9.0, 9.0))
    assert never.status is Status.FAILED
    assert always.status is not Status.FAILED
    assert "weights" in uncalibrated_method("invariant").config()
    assert uncalibrated_method("invariant").config()["weights"] != register_method("invariant").config()["weights"]


def test_another_calibration_chooses_another_candidate():
    pair = RealPairs(PairKind.DETAILS).labelled(1)
    wrong = Pose.random(generator=torch.Generator().manual_seed(3), translation=20.0).matrix().tolist()
    truth = pair.target_T_source.matrix().tolist()
    rows = (candidate(wrong, 0, score=9.0, stand_out=1.0), candidate(truth, 1, score=3.0, stand_out=8.0))
    entry = prediction(pair, candidates=rows)
    by_score, by_stand_out = (judged(entry, constant(9.0, {name: 5.0})) for name in ("score", "stand_out"))
    assert (by_score.best, by_score.right, by_score.listed) == (0, False, True)
    assert (by_stand_out.best, by_stand_out.right, by_stand_out.status) == (1, True, Status.SUCCESS)
    undecided = judged(entry, constant(9.0))
    assert (undecided.status, undecided.confidence) == (Status.AMBIGUOUS, pytest.approx(0.5, abs=1e-3))
    together = judged(prediction(pair, candidates=tuple(replace(row, group=0) for row in rows)), constant(9.0))
    assert (together.status, together.confidence) == (Status.SUCCESS, pytest.approx(1.0, abs=1e-3))


# Calibration


def test_calibration_errors_are_as_defined():
    confidence = np.array([0.05, 0.05, 0.95, 0.95])
    right = np.array([False, True, True, True])
    assert calibration_error(confidence, right) == pytest.approx((abs(0.1 - 1) + abs(1.9 - 2)) / 4)
    assert adaptive_calibration_error(confidence, right, 2) == pytest.approx((abs(0.1 - 1) + abs(1.9 - 2)) / 4)
    assert calibration_error(np.array([1.0]), np.array([True])) == 0.0
    assert measured_reliability(np.zeros(0), np.zeros(0, dtype=bool)).ece == 0.0


def test_a_calibrated_model_has_a_small_error():
    generator = np.random.default_rng(1)
    confidence = generator.uniform(size=20_000)
    right = generator.uniform(size=20_000) < confidence
    assert calibration_error(confidence, right) < 0.015
    assert calibration_error(confidence**3, right) > 0.1


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> Samples:
    """Two places in which the same evidence means the opposite: at one of them many inliers are right."""
    monkeypatch.setitem(FEATURES, "percent", lambda evidence: evidence.inliers / 100)
    generator = torch.Generator().manual_seed(0)
    rows = []
    for place, sign in (("a", 1), ("b", -1)):
        for values in torch.rand(60, 2, generator=generator).tolist():
            seen = tuple(replace(Evidence.nothing(), inliers=1 + round(99 * value)) for value in values)
            right = tuple((value > 0.5) == (sign > 0) for value in values)
            rows.append(Sample("crops", (place,), seen, (0, 1), right))
    return Samples(tuple(rows), FeatureNames(("percent",), ("percent",)))


def test_a_place_is_judged_without_itself(samples):
    own = samples.left_out()
    assert own[0] == samples.calibration(np.arange(120) >= 60)
    assert own[-1] == samples.calibration(np.arange(120) < 60)
    for model in ("presence", "choice"):
        sign = [getattr(calibration, model)["percent"] > 0 for calibration in (own[0], own[-1])]
        assert sign == [False, True], model


def test_no_kind_and_no_place_dominates(samples):
    row = samples.rows[0]
    rows = [row] * 6 + [replace(row, places=("b",))] * 2 + [replace(row, kind="tiny", places=("c",))] * 4
    weight = Samples(tuple(rows), FeatureNames((), ())).weight
    assert weight.sum() == pytest.approx(12)
    assert weight[:6].sum() == pytest.approx(weight[6:8].sum()) == pytest.approx(3)
    assert weight[8:].sum() == pytest.approx(6)
    favoured = Samples(tuple(rows), FeatureNames((), ()), "tiny").weight
    assert favoured[8:].sum() == pytest.approx(4 * favoured[:8].sum())


def test_only_successes_count_as_called(samples):
    (count,) = count_kinds(judge_samples(samples, [constant(9.0)] * 120))
    assert count.pairs == count.right.total == 120
    too_few = sum(row.evidence[0].inliers < JudgementSettings().min_inliers for row in samples.rows)
    assert count.called + count.ambiguous == 120 - too_few


def test_a_calibration_uses_real_pairs_and_says_so(folder, tmp_path, monkeypatch):
    protocols = [AnyProtocol(keep=0.25), ScanProtocol(overlap=0.15), confidence.Unrelated(), confidence.Unrelated()]
    monkeypatch.setattr(confidence, "PROTOCOLS", {MatchFrame.NORMALIZED: protocols})  # each half has right and wrong
    monkeypatch.setattr(confidence, "KINDS", ("indoor",))
    maps = (folder / "lines",)
    with Runner(RunSettings(tmp_path / "predictions")) as runner:
        data = CalibrationData(3, maps, 1)
        document = evaluate_confidence("descriptors", runner, data)
        with pytest.raises(InputError, match="without real maps"):
            evaluate_confidence("pluecker-indoor", runner, data)
    values = document.values
    assert "real maps" in values.calibration.fitted_on
    assert "matcher_agreement" in values.calibration.presence
    assert "matcher_agreement" not in values.calibration.choice
    assert values.real is not None
    assert {kind.kind for kind in values.real.kinds} == {"synthetic", *map(str, PairKind)}
    assert values.real.all_kinds.pairs >= values.real.crops.pairs
    write_result(tmp_path / "confidence.json", document)
    calibrations = read_calibrations(tmp_path / "confidence.json")
    assert calibrations.whole == values.calibration
    assert {"town/4", "cube"} & set(calibrations.without)
    left_out = LeftOutCrops((), measured_reliability(np.array([0.95]), np.array([True])))
    rows = {name: [] for name in (*GROUPS, "symmetric", "unrelated")} | {"crops": []}
    shown = replace(acceptance_values("x", "", rows), left_out=left_out)
    assert any("calibrated without their map" in row.what for row in acceptance_rows(shown))


def test_special_pairs_have_a_calibration_of_their_own_where_they_suffice(samples, monkeypatch):
    monkeypatch.setattr(confidence, "_samples", lambda *_: samples)
    made = confidence.special_calibration([], samples.features, "houses")
    assert made is not None
    calibration, reliability = made
    assert calibration.choice == samples.calibration(samples.with_pose()).choice
    assert calibration.fitted_on == f"houses; {int(samples.with_pose().sum())} pairs"
    assert set(reliability.without) == {"a", "b"}
    few = Samples(samples.rows[:60], samples.features)
    monkeypatch.setattr(confidence, "_samples", lambda *_: few)
    assert confidence.special_calibration([], few.features, "houses") is None


def test_quick_looks_are_limited():
    data = AcceptanceData(Path("data"), unrelated=3, symmetric=2, limit=5)
    assert {name: count for name, (_, count) in data.datasets().items()} == {
        **dict.fromkeys(GROUPS, 5),
        "crops": 5,
        "symmetric": 2,
        "unrelated": 3,
    }
