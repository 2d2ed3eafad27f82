"""The trainings behind the ablations: they stop, go on, and end in a document that the experiment reads."""

import json
from dataclasses import replace

import pytest

from plueckernet.data import PaperProtocol
from plueckernet.errors import InputError
from plueckernet.evaluation.datasets import StandIn
from plueckernet.evaluation.documents import read_json
from plueckernet.evaluation.experiments.ablations import AblationSettings, read_ablations
from plueckernet.evaluation.methods import Estimate, Method
from plueckernet.evaluation.predictions import Cell, predict
from plueckernet.evaluation.rates import Rate
from plueckernet.models import PlueckerConfig
from plueckernet.training import ablations
from plueckernet.training.ablations import AblationJob, AblationRun, numbers, run_ablations

SMALL = AblationSettings(steps=4, batch=2, lines=32, scenes=16, pairs=2)


def test_what_was_interrupted_goes_on_and_is_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(ablations, "DESIGNS", {"as published": PlueckerConfig(layers=2)})
    assert run_ablations(SMALL, AblationRun(tmp_path, "cpu", minutes=0.0)) == (0, 3)
    assert read_json(tmp_path / "ablations.json")["values"]["trainings"] == []
    half = json.loads((tmp_path / "trainings" / "as-published-1" / "last" / "state.json").read_text())
    assert half["step"] < 4
    assert run_ablations(SMALL, AblationRun(tmp_path, "cpu")) == (3, 3)
    trainings = read_ablations(tmp_path / "ablations.json").values.trainings
    assert [(run.design, run.seed) for run in trainings] == [("as published", seed) for seed in range(3)]
    assert all(len(run.result[kind].recalls) == 2 for run in trainings for kind in ("indoor", "outdoor"))
    with pytest.raises(InputError, match="other settings"):
        run_ablations(AblationSettings(steps=5), AblationRun(tmp_path, "cpu"))


def test_trainings_that_are_kept_are_not_repeated_and_joined_with_new_ones(tmp_path, monkeypatch):
    designs = {
        "as published": PlueckerConfig(layers=2),
        "fast attention": PlueckerConfig(layers=2, fast_attention=True),
    }
    monkeypatch.setattr(ablations, "DESIGNS", designs)
    monkeypatch.setattr(ablations, "SEEDS", (0,))
    run_ablations(SMALL, AblationRun(tmp_path / "first", "cpu"))
    kept = tmp_path / "first" / "ablations.json"
    monkeypatch.setattr(ablations, "SEEDS", (0, 1))
    where = AblationRun(tmp_path / "second", "cpu", kept=kept)
    assert run_ablations(SMALL, where) == (4, 4)
    assert {path.name for path in (tmp_path / "second" / "trainings").iterdir()} == {
        "as-published-1",
        "fast-attention-1",
    }
    first, all_of_them = read_json(kept), read_json(tmp_path / "second" / "ablations.json")
    assert all_of_them["values"]["trainings"][:2] == first["values"]["trainings"]
    assert [(run["design"], run["seed"]) for run in all_of_them["values"]["trainings"]] == [
        (design, seed) for seed in (0, 1) for design in designs
    ]
    (later,) = all_of_them["provenance"].pop("later")
    assert all_of_them["provenance"] == first["provenance"]
    assert later["module"] == "plueckernet.training.ablations"
    with pytest.raises(InputError, match="other settings"):
        run_ablations(replace(SMALL, steps=5), replace(where, out=tmp_path / "third"))
    assert not (tmp_path / "third").exists()


def test_recall_is_of_the_matches_that_could_be_among_the_best():
    def estimate(pair):
        rows = pair.matches[:10].clone()
        rows[:2, 1] = rows[2, 1]  # two wrong ones
        return Estimate(pair.target_T_source, {"pose": 1.0}, rows, rows)

    cell = Cell(StandIn("outdoor"), PaperProtocol(), Method("some", lambda _method, _device: estimate))
    result = numbers([predict(cell, estimate, index) for index in range(2)])
    assert result.precision == result.recall == pytest.approx(0.8)
    assert result.success == Rate(2, 2)


def test_names_are_fit_for_files(tmp_path):
    names = {AblationJob(design, model, 1, tmp_path).name for design, model in ablations.DESIGNS.items()}
    assert "batchnorm-relu-1" in names
    assert len(names) == len(ablations.DESIGNS)
