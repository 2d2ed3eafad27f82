"""Two processes take the same step as one process with all the pairs."""

import os
import subprocess
import sys

from tests.cli.helpers import run
from tests.training.tiny import SMALL

from plueckernet.training.checkpoint import load_checkpoint

# Three pairs for two processes, so the weights of the processes differ. The clip limit is never reached.
SETTINGS = (*SMALL, "train.steps=2", "train.batch=3", "train.clip=1e9")


def arguments(out):
    return ["train", "tiny", "--out", str(out), "--quiet", *(x for setting in SETTINGS for x in ("--set", setting))]


def test_two_processes_have_the_gradients_of_a_single_process(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, "-m", "plueckernet.cli", *arguments(tmp_path / "two")],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert run(*arguments(tmp_path / "one")) == 0
    single, double = (load_checkpoint(tmp_path / name / "last").tensors for name in ("one", "two"))
    for group in ("first_moment", "second_moment"):
        for name, value in single[group].items():
            assert bool(close(double[group][name], value).all()), f"{group} {name}"
    # Adam divides by the size of the gradient: where that is rounding alone, the step has any size and sign.
    for name, value in single["model"].items():
        assert float(close(double["model"][name], value).float().mean()) > 0.999, name


def close(value, expected):
    return (value - expected).abs() <= 1e-3 * expected.abs() + 1e-4 * expected.abs().max()
