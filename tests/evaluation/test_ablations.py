"""The trainings behind the ablations: they stop, go on, and end in a document that the experiment reads."""

import json

import pytest
from benchmarks import ablations
from benchmarks.ablations import Job, numbers

from plueckernet.data import PaperProtocol
from plueckernet.evaluation.datasets import StandIn
from plueckernet.evaluation.experiments.ablations import read_ablations
from plueckernet.evaluation.methods import Estimate, Method
from plueckernet.evaluation.predictions import Cell, predict
from plueckernet.models import PlueckerConfig

SMALL = ["--device=cpu", "--batch=2", "--lines=32", "--scenes=16", "--pairs=2", "--processes=1"]


def test_what_was_interrupted_goes_on_and_is_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(ablations, "DESIGNS", {"as published": PlueckerConfig(layers=2)})
    command = [f"--out={tmp_path}", "--steps=4", *SMALL]
    with pytest.raises(SystemExit, match="again"):
        ablations.main([*command, "--minutes=0"])
    assert json.loads((tmp_path / "ablations.json").read_text())["designs"] == []
    half = json.loads((tmp_path / "trainings" / "as-published-1" / "last" / "state.json").read_text())
    assert half["step"] < 4
    ablations.main(command)
    found = read_ablations(tmp_path / "ablations.json")
    assert [(row["design"], row["seed"]) for row in found["designs"]] == [("as published", 0), ("as published", 1)]
    assert all(len(row["result"][kind]["recalls"]) == 2 for row in found["designs"] for kind in ("indoor", "outdoor"))
    with pytest.raises(SystemExit, match="other settings"):
        ablations.main([f"--out={tmp_path}", "--steps=5", *SMALL])


def test_recall_is_of_the_matches_that_could_be_among_the_best():
    def estimate(pair):
        rows = pair.matches[:10].clone()
        rows[:2, 1] = rows[2, 1]  # two wrong ones
        return Estimate(pair.target_T_source, {"pose": 1.0}, rows, rows)

    cell = Cell(StandIn("outdoor"), PaperProtocol(), Method("some", lambda _method, _device: estimate))
    found = numbers([predict(cell, estimate, index) for index in range(2)])
    assert found["precision"] == found["recall"] == pytest.approx(0.8)
    assert found["success"] == 1


def test_names_are_fit_for_files(tmp_path):
    names = {Job(design, model, 1, tmp_path).name for design, model in ablations.DESIGNS.items()}
    assert "batchnorm-relu-1" in names
    assert len(names) == len(ablations.DESIGNS)
