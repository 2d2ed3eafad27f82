"""Weights come back as they went, or not at all."""

import json
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.models.random_lines import random_lines

from plueckernet.errors import FormatError, InputError
from plueckernet.geometry import stack_lines
from plueckernet.models import InvariantConfig, PlueckerConfig, PoseRegressor, build_matcher, weights
from plueckernet.models.weights import ModelCard, available_pretrained, load_card, load_pretrained, save_pretrained

CARD = ModelCard("tiny", data="none", protocol="none", numbers={"success": 0.5})


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    return save_pretrained(tmp_path / "tiny", build_matcher(InvariantConfig(layers=2)), CARD)


@torch.no_grad()
@pytest.mark.parametrize(
    ("build", "config"), [(build_matcher, InvariantConfig(layers=2)), (build_matcher, PlueckerConfig(layers=2)),
                          (PoseRegressor, PlueckerConfig(layers=2))], ids=["invariant", "pluecker", "regression"],
)  # fmt: skip
def test_a_round_trip_gives_the_same_answers(tmp_path, build, config):
    torch.manual_seed(0)
    model = build(config)
    again = load_pretrained(save_pretrained(tmp_path / "model", model, CARD))
    assert type(again) is type(model)
    pair = stack_lines([random_lines(5)]), stack_lines([random_lines(6, 1)])
    for a, b in zip(model.eval()(*pair), again(*pair), strict=True):
        torch.testing.assert_close(a, b, atol=0, rtol=0)


def test_the_card_says_what_the_model_is(saved):
    card = load_card(saved)
    assert card.numbers == {"success": 0.5}
    assert card.architecture["network"] == "invariant"
    assert card.architecture["layers"] == 2


@pytest.mark.parametrize("change", ["missing", "unknown", "shape"])
def test_weights_that_do_not_fit_are_refused(saved, change):
    tensors = load_file(saved)
    name = next(iter(tensors))
    if change == "missing":
        del tensors[name]
    elif change == "unknown":
        tensors["surprise"] = torch.zeros(1)
    else:
        tensors[name] = torch.zeros(1, 2, 3)
    save_file(tensors, saved)
    with pytest.raises(FormatError, match="do not fit"):
        load_pretrained(saved)


def test_a_file_that_is_no_safetensors_is_refused(saved):
    saved.write_bytes(b"not this")
    with pytest.raises(FormatError, match="safetensors"):
        load_pretrained(saved)


@pytest.mark.parametrize("change", [{"surprise": 1}, {"architecture": {"task": "matching", "network": "other"}},
                                    {"architecture": {"task": "other", "network": "invariant"}}])  # fmt: skip
def test_a_card_that_makes_no_sense_is_refused(saved, change):
    card = saved.with_suffix(".json")
    card.write_text(json.dumps(json.loads(card.read_text()) | change))
    with pytest.raises(FormatError):
        load_pretrained(saved)


def test_a_missing_card_is_refused(saved):
    saved.with_suffix(".json").unlink()
    with pytest.raises(FormatError, match="card"):
        load_pretrained(saved)


def test_an_unknown_name_tells_the_known_ones():
    with pytest.raises(InputError, match="no pretrained model 'nobody'"):
        load_pretrained("nobody")


def test_every_packaged_model_loads():
    for name in available_pretrained():
        load_pretrained(name)


def test_the_error_knows_what_wheels_leave_out(monkeypatch, tmp_path):
    """pyproject.toml leaves weights out of the wheel; whoever asks for them there is told where they are."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    (pattern,) = project["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
    left_out = {path.stem for path in Path(__file__).parents[2].glob(f"{pattern}.safetensors")}
    assert left_out == set(weights._NOT_IN_WHEELS)
    monkeypatch.setattr(weights, "_FOLDER", tmp_path)
    for name in left_out:
        with pytest.raises(InputError, match="comes with the repository"):
            load_pretrained(name)


@pytest.mark.parametrize("name", available_pretrained())
def test_the_card_of_shipped_weights_tells_the_whole_recipe(name):
    numbers = load_card(name).numbers
    training = numbers.get("training", numbers)
    recipe = training["recipe"]
    assert {"protocol", "scenes", "sizes", "keep", "pool", "fresh"} <= set(recipe["data"])
    assert {"steps", "batch", "lr", "warmup", "schedule", "weight_decay", "clip", "precision", "ema"} <= set(
        recipe["train"]
    )
    assert 0 < training["steps"] <= recipe["train"]["steps"]
