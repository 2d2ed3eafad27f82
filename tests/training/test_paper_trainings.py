"""The trainings of the paper's networks side by side: order, resumption, what is packed."""

import json
import tarfile
from dataclasses import replace

import pytest
from benchmarks import paper_trainings
from benchmarks.pages import EXPERIMENT_RESULTS
from benchmarks.paper_trainings import MAIN, Plan, pack, run_one

from plueckernet.evaluation.experiments.ablations import AblationSettings, read_ablations
from plueckernet.models.weights import load_card, load_pretrained

TINY = (
    "model.layers=2", "train.steps=3", "train.batch=2", "train.workers=0", "data.sizes=[48]", "data.pool=64",
    "data.stored=96", "validation.pairs=1",
)  # fmt: skip


@pytest.fixture
def plan(tmp_path):
    ablations = AblationSettings(steps=1, batch=1, lines=24, scenes=64, pairs=1)
    return Plan(tmp_path, "cpu", 10.0, 1, False, None, TINY, ablations)


def test_the_papers_networks_come_before_ablations_and_whole_seeds_before_others(plan):
    names = plan.names()
    assert names[: len(MAIN)] == list(MAIN)
    assert [name[-1] for name in names[len(MAIN) :]] == ["0"] * 7 + ["1"] * 7 + ["2"] * 7


def test_ablations_that_an_earlier_document_has_are_left_out(plan):
    missing = replace(plan, main=False, kept=EXPERIMENT_RESULTS / "ablations.json").names()
    kept = read_ablations(EXPERIMENT_RESULTS / "ablations.json").values.trainings
    assert len(missing) + len(kept) == 21
    assert "as-published-0" not in missing


def test_a_training_is_resumed_exported_and_packed(plan, tmp_path, capsys):
    name = "pluecker-paper-outdoor"
    run_one(plan, name, minutes=0.0, graphs=True)
    assert not plan.finished(name)
    run_one(plan, name, minutes=10.0, graphs=True)
    assert plan.finished(name)
    card = load_card(plan.weights / f"{name}.safetensors")
    assert (card.name, card.numbers["recipe"]["data"]["scenes"]) == (name, ["outdoor"])
    assert card.numbers["recipe"]["train"]["lr"] == 1e-3
    load_pretrained(plan.weights / f"{name}.safetensors")

    run_one(plan, "regression-indoor", minutes=0.0, graphs=True)
    run_one(plan, "as-published-0", minutes=10.0, graphs=True)
    packed = tmp_path / "packed"
    packed.mkdir()
    pack(plan, packed)
    with tarfile.open(packed / "weights-1.tar") as archive:
        files = archive.getnames()
    assert f"weights/{name}.safetensors" in files
    assert "unfinished/regression-indoor.safetensors" in files
    with tarfile.open(packed / "rest.tar.gz") as archive:
        assert "ablations/trainings/as-published-0/log.jsonl" in archive.getnames()
    assert all(path.stat().st_size < 16 * 2**20 for path in packed.iterdir())

    paper_trainings.table(plan)
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert lines[name].endswith("True")
    assert lines["regression-indoor"].endswith("False")
    assert lines["pluecker-indoor"].endswith("not begun")
    assert json.loads((plan.folder(name) / "last" / "state.json").read_text())["step"] == 3
