"""Predictions are kept, found again, never mixed; whatever has no pose is a failure."""

import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from tests.evaluation.small import pairs_folder, scenes_folder, weights_folder

from plueckernet.data import LinePair, PaperProtocol, make_scene
from plueckernet.data.prepared import read_index
from plueckernet.data.protocols import Noise
from plueckernet.errors import DegenerateError, FormatError, InputError
from plueckernet.estimation.icl import IclSettings
from plueckernet.evaluation.datasets import Prepared, StandIn, open_datasets
from plueckernet.evaluation.documents import to_json
from plueckernet.evaluation.methods import Estimate, Method, all_methods, published_lines, published_method
from plueckernet.evaluation.predictions import Cell, Store, predict
from plueckernet.evaluation.protocols import Recorded, Unrelated
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.runner import Runner, RunSettings
from plueckernet.evaluation.summary import summarise
from plueckernet.geometry import Pose
from plueckernet.registration import register
from plueckernet.result import Alternative, Status

ICL = all_methods()["icl"]
CELL = Cell(StandIn("outdoor"), PaperProtocol(), ICL)


def test_what_is_kept_is_what_was_found(tmp_path):
    predictions = [predict(CELL, ICL.load(), index) for index in range(2)]
    store = Store(tmp_path)
    store.append(CELL, predictions[:1])
    store.append(CELL, predictions[1:])
    assert list(store.read(CELL).values()) == predictions


def test_a_changed_config_is_refused_and_named(tmp_path):
    Store(tmp_path).append(CELL, [predict(CELL, ICL.load(), 0)])
    changed = replace(CELL, method=replace(ICL, settings=IclSettings(max_iterations=3)))
    with pytest.raises(InputError, match=r"method\.settings\.max_iterations"):
        Store(tmp_path).read(changed)


def test_predictions_of_other_code_are_refused(tmp_path, monkeypatch):
    Store(tmp_path).append(CELL, [predict(CELL, ICL.load(), 0)])
    monkeypatch.setattr("plueckernet.evaluation.predictions._sources", lambda *_: "another")
    with pytest.raises(InputError, match=r"another config \(sources\)"):
        Store(tmp_path).read(CELL)


def test_the_key_is_the_code_of_the_method_not_the_version():
    """Methods that share code share it, and a method from elsewhere counts with its file."""

    def build(_method, _device):
        return lambda pair: Estimate(pair.target_T_source, {})

    methods = {**all_methods(), "elsewhere": Method("elsewhere", build)}
    names = ("icl", "icl-undirected", "ours-without-weights", "bound", "elsewhere")
    configs = {name: replace(CELL, method=methods[name]).config() for name in names}
    keys = {name: config["sources"] for name, config in configs.items()}
    assert keys["icl"] == keys["icl-undirected"]
    assert len(set(keys.values())) == len(keys) - 1
    assert all("plueckernet" not in config for config in configs.values())


def test_half_a_line_is_forgotten_and_a_bad_one_is_named(tmp_path):
    store, prediction = Store(tmp_path), predict(CELL, ICL.load(), 0)
    store.append(CELL, [prediction])
    path = tmp_path / CELL.folder / "predictions.jsonl"
    with path.open("a") as stream:
        stream.write('{"pair": 1, "sta')
    assert list(store.read(CELL)) == [0]
    store.append(CELL, [replace(prediction, pair=1)])
    assert list(store.read(CELL)) == [0, 1]
    with path.open("a") as stream:
        stream.write("{}\n")
    with pytest.raises(FormatError, match=r"predictions.jsonl:3"):
        store.read(CELL)


@pytest.mark.parametrize(("error", "status"), [(DegenerateError("parallel"), "failed"), (InputError("few"), "skipped")])
def test_pairs_that_a_method_cannot_use_are_failures(error, status):
    def refuse(_pair):
        raise error

    prediction = predict(CELL, refuse, 0)
    assert (prediction.status, prediction.reason, prediction.error) == (status, str(error), (math.inf, math.inf))
    summary = summarise([prediction, predict(CELL, lambda pair: Estimate(pair.target_T_source, {}), 1)])
    assert getattr(summary, status) == 1
    assert summary.success == Rate(1, 2)
    assert summary.rotation_auc == 0.5
    assert summary.rotation[2] is None
    json.dumps(to_json(summary), allow_nan=False)


def test_times_are_fractions_of_the_cpu_time():
    def estimate(pair):
        start = time.process_time()
        while time.process_time() - start < 0.05:
            pass
        return Estimate(pair.target_T_source, {"matching": 1.0, "pose": 3.0})

    spent, given = (predict(CELL, estimate, 0, device).seconds for device in ("cpu", "cuda"))
    assert sum(spent.values()) == pytest.approx(0.05, abs=0.04)
    assert spent["pose"] == pytest.approx(3 * spent["matching"])
    assert given == {"matching": 1.0, "pose": 3.0}


def test_matches_and_matchabilities_are_counted():
    def estimate(pair):
        rows = torch.cat([pair.matches[:4], pair.matches[4:6].flip(0) + torch.tensor([0, 1])])
        likely = [torch.full((len(side),), 0.1) for side in (pair.source, pair.target)]
        for side, values in enumerate(likely):
            values[pair.matches[:, side]] = 0.3
        return Estimate(pair.target_T_source, {"pose": 1.0}, rows, rows[2:], (likely[0], likely[1]))

    prediction = predict(CELL, estimate, 0)
    assert (prediction.matches, prediction.right) == (6, 4)
    assert (prediction.putative, prediction.putative_right) == (4, 2)
    assert prediction.matchable == pytest.approx(3 * prediction.unmatchable)


def test_only_what_is_missing_is_computed(tmp_path, monkeypatch):
    asked = []

    def build(_method, _device):
        return lambda pair: asked.append(pair) or Estimate(pair.target_T_source, {})

    counting = Method("counting", build)
    monkeypatch.setattr("plueckernet.evaluation.runner.all_methods", lambda _weights: {"counting": counting})
    runner = Runner(RunSettings(tmp_path))
    cell = runner.cell("outdoor", PaperProtocol(), "counting")
    assert [len(cell) for cell in runner.run([cell], 3)] == [3]
    limited = Runner(RunSettings(tmp_path, limit=5))
    for asked_for in (3, 100):  # the limit takes the place of what is asked for, whether that is less or more
        assert [[entry.pair for entry in cell] for cell in limited.run([cell], asked_for)] == [[0, 1, 2, 3, 4]]
    assert len(asked) == 5
    with pytest.raises(InputError, match="no end to its pairs"):
        runner.count(cell, None)


def test_processes_give_the_same(tmp_path):
    cells = [replace(CELL, method=all_methods()[name]) for name in ("icl", "bound")]
    single = Runner(RunSettings(tmp_path / "single")).run(cells, 5)
    with Runner(RunSettings(tmp_path / "shared", workers=2)) as runner:
        shared = runner.run(cells, 5)
    assert [[entry.pose for entry in cell] for cell in single] == [[entry.pose for entry in cell] for cell in shared]


def test_what_several_ask_for_is_computed_once(tmp_path, monkeypatch):
    asked = []

    def build(_method, _device):
        return lambda pair: asked.append(pair) or Estimate(pair.target_T_source, {})

    monkeypatch.setattr(
        "plueckernet.evaluation.runner.all_methods", lambda _weights: {"counting": Method("counting", build)}
    )
    runner = Runner(RunSettings(tmp_path))
    cells = [runner.cell("outdoor", PaperProtocol(keep=keep), "counting") for keep in (0.5, 0.5, 1.0)]
    runner.compute([(cells[0], 2), (cells[1], 3), (cells[2], 1)])
    assert len(asked) == 4
    assert [len(cell) for cell in runner.run(cells[::2], 1)] == [1, 1]
    assert len(asked) == 4


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")
def test_a_killed_run_leaves_no_process_and_goes_on(tmp_path):
    """SIGKILL gives nobody the time to say goodbye."""
    command = [sys.executable, "-m", "plueckernet.cli", "evaluate", "methods", "icl", "--pairs=3000", "--workers=2"]
    run = subprocess.Popen([*command, f"--out={tmp_path}"], start_new_session=True)
    path = tmp_path / "indoor" / "paper" / "icl" / "predictions.jsonl"
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= 5)
    run.kill()
    run.wait()
    wait_until(lambda: not alive(run.pid))
    cell = Runner(RunSettings(tmp_path)).cell("indoor", PaperProtocol(), "icl")
    kept = Store(tmp_path).read(cell)
    assert len(kept) >= 5
    count = max(kept) + 2
    predictions = Runner(RunSettings(tmp_path)).run([cell], count)[0]
    assert [prediction.pair for prediction in predictions] == list(range(count))
    assert all(predictions[pair] == prediction for pair, prediction in kept.items())


def wait_until(condition, seconds=60.0):
    """Until it holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(session: int) -> bool:
    """Whether any process of a session is left."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its = path.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(its) == session and state != "Z":
            return True
    return False


# Datasets and weights


def test_a_prepared_folder_gives_its_test_scenes(tmp_path):
    folder = scenes_folder(tmp_path / "houses", "indoor", 4)
    dataset = open_datasets({"indoor": folder})["indoor"]
    assert dataset.size(PaperProtocol()) == 3
    assert not dataset.recorded
    assert len(dataset.pair(PaperProtocol(keep=1.0), 2).matches) == 40
    with pytest.raises(FormatError, match=r"index\.json"):
        Prepared("indoor", tmp_path).config()
    with pytest.raises(InputError, match="unknown dataset 'attic'"):
        open_datasets({"attic": folder})


def test_recorded_pairs_are_used_as_they_are(tmp_path):
    folder, pair = pairs_folder(tmp_path / "pairs")
    dataset = Prepared("outdoor", folder)
    assert dataset.recorded
    assert dataset.size(Recorded()) == 1
    recorded = dataset.pair(Recorded(), 0)
    assert torch.equal(recorded.matches, pair.matches)
    assert torch.allclose(recorded.target_T_source.matrix(), pair.target_T_source.matrix())
    assert torch.allclose(recorded.target.moment, pair.target.moment)


def test_missing_weights_are_noticed_before_anything_runs(tmp_path):
    runner = Runner(RunSettings(tmp_path / "out"))
    cells = [runner.cell("indoor", PaperProtocol(), "icl")]
    cells.append(replace(cells[0], method=published_method("gone", tmp_path / "gone.safetensors")))
    with pytest.raises(InputError, match="gone"):
        runner.run(cells, 1)
    assert not (tmp_path / "out").exists()


def test_weights_that_a_folder_lacks_are_the_packages(tmp_path):
    folder = weights_folder(tmp_path / "weights")
    for path in folder.glob("invariant.*"):
        path.unlink()
    methods = all_methods(folder)
    assert methods["ours"].config()["weights"] == all_methods()["ours"].config()["weights"]
    assert methods["pluecker-indoor"].config()["weights"] != all_methods()["pluecker-indoor"].config()["weights"]
    with pytest.raises(InputError, match="no such folder of weights"):
        all_methods(tmp_path / "elsewhere")


def test_the_index_is_read_once(tmp_path, monkeypatch):
    folder, pair = pairs_folder(tmp_path / "drive")
    reads = []
    monkeypatch.setattr(
        "plueckernet.evaluation.datasets.read_index", lambda path: reads.append(path) or read_index(path)
    )
    dataset = Prepared("outdoor", folder)
    for _ in range(3):
        assert len(dataset.pair(Recorded(), 0).source) == len(pair.source)
        assert dataset.recorded
        assert dataset.size(Recorded()) == 1
        dataset.config()
    assert len(reads) == 1


def test_the_papers_methods_read_recorded_segments_by_the_hemisphere_rule():
    scene = make_scene("room", 1)
    flips = torch.arange(len(scene)) % 2 == 0
    pair = LinePair(scene, scene.flipped(flips), Pose.identity(), torch.arange(len(scene)).repeat(2, 1).mT)
    source, target = published_lines(pair)
    assert torch.equal(source.direction, target.direction)
    assert source.endpoints is None
    assert bool((source.direction[:, 0] >= 0).all())
    directed = LinePair(scene.infinite(), scene.infinite().flipped(flips), Pose.identity(), pair.matches)
    assert published_lines(directed)[1] is directed.target  # the protocol has decided
    for name in ("icl", "pluecker-indoor", "regression-indoor"):  # all methods of a row
        estimate = all_methods()[name].load()
        poses = [estimate(maps).target_T_source.matrix() for maps in (pair, replace(pair, target=scene))]
        torch.testing.assert_close(poses[0], poses[1], atol=1e-4, rtol=0, msg=name)


def test_ours_is_what_a_user_gets():
    """The same matcher, with its first look and asked about parts: this pair needs more than one look at all lines."""
    pair = StandIn("outdoor").pair(PaperProtocol(noise=Noise(0.2, None, 10.0, None)), 2)
    measured, registered = all_methods()["ours"].load()(pair).result, register(pair.source, pair.target)
    assert measured.matcher == registered.matcher == "invariant"
    assert (measured.status, measured.confidence) == (registered.status, registered.confidence)
    for ours, theirs in zip(measured.alternatives, registered.alternatives, strict=True):
        torch.testing.assert_close(ours.rigid_pose.matrix(), theirs.rigid_pose.matrix())


def test_our_network_says_which_lines_have_a_match():
    cell = Cell(StandIn("indoor"), PaperProtocol(), all_methods()["ours-network"])
    prediction = predict(cell, cell.method.load(), 0)
    assert prediction.pose is None
    assert prediction.matchable > prediction.unmatchable


def test_every_method_answers(tmp_path):
    folder, methods = scenes_folder(tmp_path / "towns", "outdoor", 2), all_methods(weights_folder(tmp_path / "weights"))
    for method in methods.values():
        cell = Cell(Prepared("outdoor", folder), PaperProtocol(keep=1.0), method)
        prediction = predict(cell, method.load(), 0)
        assert prediction.status in ("found", "failed"), method.name
        assert sum(prediction.seconds.values()) > 0, method.name
        if method.name in (
            "icl",
            "ours",
            "ours-told",
            "ours-without-weights",
            "bound",
            "ransac-published",
            "ransac-ours",
        ):
            assert prediction.error[0] < 5, method.name  # weights that know nothing do not matter to these
            assert prediction.right > 10, method.name


def test_weights_of_another_kind_are_refused(tmp_path):
    folder = weights_folder(tmp_path)
    for suffix in (".safetensors", ".json"):
        Path(folder / f"regression-indoor{suffix}").replace(folder / f"pluecker-indoor{suffix}")
    with pytest.raises(InputError, match="do not match lines"):
        all_methods(folder)["pluecker-indoor"].load()


def test_a_pose_that_is_no_motion_is_a_failure():
    mirrored = Pose(torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)), torch.zeros(3).double())
    prediction = predict(CELL, lambda _pair: Estimate(mirrored, {}), 0)
    assert (prediction.status, prediction.pose, prediction.accepted) == ("failed", None, False)
    assert "rotation" in prediction.reason


def test_the_best_pose_counts_whether_accepted_or_not():
    pair = CELL.dataset.pair(CELL.protocol, 0)
    result = register(pair.source, pair.target, matcher="descriptors")
    failed = replace(result, status=Status.FAILED, target_T_source=None, alternatives=(
        Alternative(pair.target_T_source, 0.4, result.evidence, 2),
    ))  # fmt: skip
    prediction = predict(CELL, lambda _pair: Estimate(None, {}, result=failed), 0)
    assert prediction.error == (math.inf, math.inf)
    assert prediction.best_error[0] < 1e-6
    assert prediction.outcome().right
    assert not prediction.outcome().accepted
    assert [(entry.group, entry.evidence) for entry in prediction.candidates] == [(2, asdict(result.evidence))]
    assert prediction.candidate_errors == (prediction.best_error,)


def test_all_candidates_are_kept_the_best_first(tmp_path):
    pair = CELL.dataset.pair(CELL.protocol, 0)
    result = register(pair.source, pair.target, matcher="descriptors")
    other = Alternative(Pose.identity(), 0.01, replace(result.evidence, score=1.0), group=7)
    result = replace(result, alternatives=(other,))
    prediction = predict(CELL, lambda _pair: Estimate(result.target_T_source, {}, result=result), 0)
    assert [entry.group for entry in prediction.candidates] == [result.group, 7]
    assert prediction.candidates[1].evidence["score"] == 1.0
    assert prediction.candidates[0].pose == prediction.pose
    store = Store(tmp_path)
    store.append(CELL, [prediction])
    assert store.read(CELL) == {0: prediction}


def test_maps_of_different_places_have_no_right_pose():
    cell = Cell(StandIn("outdoor", 7_000, 7_000), Unrelated(), ICL)
    prediction = predict(cell, lambda _pair: Estimate(Pose.identity(), {}), 0)
    assert (prediction.truth, prediction.common_lines) == (None, 0)
    assert prediction.accepted
    assert not prediction.outcome().right
