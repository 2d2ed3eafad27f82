"""All experiments on another machine: order, time limit, what is kept, packed and measured anew."""

import json

import pytest
from benchmarks import paper_experiments
from benchmarks.paper_experiments import NAMES, is_ours, requests_of

from plueckernet.evaluation.experiments import EXPERIMENTS
from plueckernet.evaluation.experiments.wrong_matches import WRONG_MATCHES
from plueckernet.evaluation.reproduce import read_document
from plueckernet.evaluation.runner import Runner, RunSettings

CELLS = 24  # of `wrong-matches`: two datasets, two methods, six protocols


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["paper_experiments", "wrong-matches", "--limit", "1", *map(str, arguments)])
    paper_experiments.main()
    return capsys.readouterr().out


def test_the_methods_of_the_paper_come_first(tmp_path):
    requests = requests_of(NAMES, Runner(RunSettings(tmp_path)))
    ours = [is_ours(cell) for cell, _ in requests]
    assert ours == sorted(ours)
    assert {"ours", "ours-told", "ours-without-weights", "pluecker-indoor-refined"} <= {
        cell.method.name for cell, _ in requests if is_ours(cell)
    }
    assert set(EXPERIMENTS) - set(NAMES) == {"recipes", "ablations"}


def test_a_run_stops_in_time_goes_on_elsewhere_and_writes_the_document(tmp_path, monkeypatch, capsys):
    packed = tmp_path / "packed"
    said = run(monkeypatch, capsys, "--out", tmp_path / "a", "--minutes", 0, "--pack", packed)
    assert "the time is over" in said
    assert f"{CELLS - 1} pairs missing" in said
    assert not (tmp_path / "a" / "experiments" / "wrong-matches.json").exists()

    said = run(monkeypatch, capsys, "--out", tmp_path / "b", "--unpack", packed, "--pack", packed)
    assert "wrong-matches: complete" in said
    document = read_document(WRONG_MATCHES, tmp_path / "b" / "experiments")
    assert document.values.setting.pairs == {"indoor": 1, "outdoor": 1}

    monkeypatch.setattr(paper_experiments, "ARCHIVED_BYTES", 1)
    run(monkeypatch, capsys, "--out", tmp_path / "c", "--unpack", packed, "--pack", packed)
    assert len(list(packed.iterdir())) > CELLS  # every archive has a limit
    assert (tmp_path / "c" / "experiments" / "wrong-matches.json").exists()


@pytest.mark.parametrize("again", [False, True])
def test_predictions_of_other_sources_are_computed_anew(tmp_path, monkeypatch, capsys, again):
    assert "removed 0 cells" in run(monkeypatch, capsys, "--out", tmp_path)
    assert "removed 0 cells" in run(monkeypatch, capsys, "--out", tmp_path)
    if again:
        assert f"removed {CELLS} cells" in run(monkeypatch, capsys, "--out", tmp_path, "--again", "wrong-matches")
        return
    config = next((tmp_path / "predictions").rglob("config.json"))
    config.write_text(json.dumps(json.loads(config.read_text()) | {"sources": "others"}))
    assert "removed 1 cells" in run(monkeypatch, capsys, "--out", tmp_path)
    assert "wrong-matches: complete" in run(monkeypatch, capsys, "--out", tmp_path)
