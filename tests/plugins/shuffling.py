"""Runs the tests in another order: `--shuffle SEED`, or `--shuffle random`, whose seed the header prints.

Test modules are shuffled, and the tests within each. A module stays together, because its fixtures are made once for
it. After the last test of a module, the settings of the process that could make the order matter have to be the ones
of the start; a module that leaves one changed fails.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

# Variables that pytest changes from test to test, and those that OpenCV and PyTorch set when they are first used.
_OF_OTHERS = (
    "PYTEST_", "COV_", "LD_LIBRARY_PATH", "QT_", "TORCHINDUCTOR_", "TRITON_", "CUDA_", "TF_", "TPU_",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="shuffle modules and tests by a seed, or by a `random` one")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed once, in the process that starts the workers: all of them need the same order."""
    if hasattr(config, "workerinput"):
        config.option.shuffle = config.workerinput["shuffle"]
    elif config.option.shuffle == "random":
        config.option.shuffle = str(secrets.randbelow(10**6))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist, which reads the command line again, the seed that was chosen."""
    node.workerinput["shuffle"] = node.config.option.shuffle


def pytest_report_header(config: pytest.Config) -> str | None:
    return f"order: --shuffle {config.option.shuffle}" if config.option.shuffle else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.shuffle:
        items[:] = shuffled(items, config.option.shuffle)


def shuffled(items: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """The tests in the order of a seed, module by module."""
    generator = random.Random(seed)
    modules: dict[Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    order = list(modules)
    generator.shuffle(order)
    for path in order:
        generator.shuffle(modules[path])
    return [item for path in order for item in modules[path]]


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[_STATE] = process_state()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Compare once a module is done, when its fixtures have put back what they changed."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        before, after = item.config.stash[_STATE], process_state()
        item.config.stash[_STATE] = after  # one complaint is enough
        changed = {name: (before.get(name), after.get(name)) for name in before | after}
        changed = {name: values for name, values in changed.items() if values[0] != values[1]}
        if changed:
            pytest.fail(f"{item.path.name} leaves the process changed (before, after): {changed}", pytrace=False)
    return result


def process_state() -> dict[str, Any]:
    """What one test could leave behind for the next."""
    environment = {f"${name}": value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}
    return environment | {
        "working directory": str(Path.cwd()),
        "torch threads": torch.get_num_threads(),
        "torch default dtype": torch.get_default_dtype(),
        "torch default device": torch.get_default_device(),
        "torch matmul precision": torch.get_float32_matmul_precision(),
        "torch deterministic": torch.are_deterministic_algorithms_enabled(),
        "torch gradients": torch.is_grad_enabled(),
        "numpy errors": np.geterr(),
    }


_STATE = pytest.StashKey[dict[str, Any]]()
