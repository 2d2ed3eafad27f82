"""Pairs are made, networks trained, resumed and evaluated on a GPU."""

import math
from dataclasses import replace

import pytest
import torch
from tests.data.test_stream import SMALL, offsets, same, tensors
from tests.training.tiny import tiny
from torch.nn.utils import parameters_to_vector

from plueckernet.data import PaperProtocol
from plueckernet.data.stream import PairStream
from plueckernet.evaluation.datasets import StandIn
from plueckernet.evaluation.methods import all_methods
from plueckernet.evaluation.predictions import Cell, predict
from plueckernet.training import train
from plueckernet.training.checkpoint import load_checkpoint, save_checkpoint
from plueckernet.training.config import load_config
from plueckernet.training.distributed import Processes
from plueckernet.training.trainer import Trainer

pytestmark = pytest.mark.gpu


def test_a_stream_makes_its_pairs_there(device):
    stream = PairStream(SMALL, batch=8, device=device)
    batch = stream.batch(2)
    assert {tensor.device.type for tensor in tensors(batch)} == {device}
    angle, distance = offsets(batch)
    assert len(angle) > 50
    assert angle.median() < 3
    assert distance.median() < 0.15
    assert same(PairStream(SMALL, batch=8, device=device).batch(2), batch)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_step_moves_the_weights(device, precision):
    config = tiny("train.steps=4", f"train.precision={precision}")
    pairs = PairStream(config.data, batch=config.train.batch, device=device, seed=config.train.seed)
    trainer = Trainer(config, Processes(torch.device(device)))
    before = parameters_to_vector(trainer.network.parameters()).detach().clone()
    step = trainer.advance(pairs.batch(0), pairs)
    after = parameters_to_vector(trainer.network.parameters()).detach()
    assert step.decision == "take"
    assert math.isfinite(step.loss)
    assert after.isfinite().all()
    assert (after - before).norm() > 0


@pytest.mark.parametrize("network", ["pluecker", "regression"])
def test_recorded_steps_are_the_same_steps(device, network):
    sets = (f"model.network={network}", "model.layers=2", "train.batch=4", "data.pool=64", "data.sizes=[128, 64]")
    config = load_config("pluecker-indoor", (*sets, "train.steps=8", "train.warmup=0"))
    losses = []
    for recorded in (False, True):
        chosen = replace(config, train=replace(config.train, cuda_graphs=recorded))
        pairs = PairStream(chosen.data, batch=chosen.train.batch, device=device, seed=chosen.train.seed)
        trainer = Trainer(chosen, Processes(torch.device(device)))
        losses.append([trainer.advance(pairs.batch(step), pairs).loss for step in range(6)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)


def test_a_training_is_resumed_with_the_same_weights(device, tmp_path):
    config = tiny("train.steps=4")
    pairs = PairStream(config.data, batch=config.train.batch, device=device, seed=config.train.seed)
    trainer = Trainer(config, Processes(torch.device(device)))
    for step in range(2):
        trainer.advance(pairs.batch(step), pairs)
    save_checkpoint(tmp_path / "run" / "last", trainer.checkpoint())
    for step in range(2, 4):
        trainer.advance(pairs.batch(step), pairs)
    outcome = train(config, tmp_path / "run", device=device, resume=True, quiet=True)
    assert (outcome.step, outcome.ending) == (4, "finished")
    weights = load_checkpoint(tmp_path / "run" / "last").weights
    for name, value in trainer.weights.state_dict().items():
        torch.testing.assert_close(weights[name].cpu(), value.cpu(), atol=1e-3, rtol=1e-2)


def test_what_was_trained_there_goes_on_on_the_cpu(device, tmp_path):
    train(tiny("train.steps=1"), tmp_path, device=device, quiet=True)
    assert train(tiny("train.steps=2"), tmp_path, resume=True, quiet=True).step == 2


@pytest.mark.parametrize("method", ["ours", "ours-without-weights", "pluecker-indoor", "regression-indoor"])
def test_a_cell_is_evaluated_there(device, method):
    cell = Cell(StandIn("indoor"), PaperProtocol(), all_methods()[method])
    prediction = predict(cell, cell.method.load(device), 0, device)
    expected = predict(cell, cell.method.load(), 0)
    assert prediction.status == expected.status == "found"
    for error, wanted in zip(prediction.error, expected.error, strict=True):
        assert error == pytest.approx(wanted, abs=0.02, rel=0.2)
