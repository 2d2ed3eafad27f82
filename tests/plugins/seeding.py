"""Fails every test that draws from a global random generator which the test has not seeded.

Before each test, and before each test module is imported, the global generators of torch (CPU and GPU) and of NumPy
start from a random state, so an unseeded test is random in every run. A generator that has moved on from that state
without a seed fails the test, and the message names the generator; so does a draw from Python's `random`. What a
fixture of the test draws counts too.

Generators that would seed themselves from the clock or the system are refused where they are made:
`np.random.default_rng()`, `torch.seed()` and `torch.Generator()`. The last one is found in the source, because
PyTorch's class cannot be replaced: `unseeded_torch_generators`.
"""

from __future__ import annotations

import ast
import os
import random
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import pytest
import torch

_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
ADVICE = "seed it with {seed}, or draw from a generator of the test with a fixed seed"


class TorchWatch:
    """One generator of torch, whose state carries the seed that it was last given."""

    def __init__(self, name: str, generator: torch.Generator) -> None:
        self.name = name
        self.advice = ADVICE.format(seed="torch.manual_seed(n)")
        self._generator = generator

    def start(self) -> None:
        self._sentinel = int.from_bytes(os.urandom(7), "big")
        self._generator.manual_seed(self._sentinel)
        self._state = self._generator.get_state()

    def drawn_unseeded(self) -> bool:
        """Whether the state has moved on from the one of `start`; `fork_rng` restores both state and seed."""
        unseeded = self._generator.initial_seed() == self._sentinel
        return unseeded and not torch.equal(self._generator.get_state(), self._state)


class NumpyWatch:
    """NumPy's global generator, whose state does not tell its seed: calls that set it are observed."""

    name = "NumPy's global generator"
    advice = ADVICE.format(seed="np.random.seed(n)")

    def __init__(self, patch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
        self._randomize = np.random.seed
        for name in ("seed", "set_state"):
            patch.setattr(np.random, name, _surrounded(getattr(np.random, name), before, self._set))

    def start(self) -> None:
        self._randomize(None)
        self._state = _numpy_state()
        self._seeded = False

    def drawn_unseeded(self) -> bool:
        return not self._seeded and _numpy_state() != self._state

    def _set(self) -> None:
        self._seeded = _numpy_state() != self._state  # not if the state of `start` was restored


class PythonWatch:
    """Python's global generator. Its draws are observed, not its state, because others draw from it, too.

    beartype draws the items that it checks, so every test starts from the same state and the checks are repeatable.
    Playwright and the standard library draw names; what such code draws is not the test's.
    """

    name = "Python's random"
    advice = ADVICE.format(seed="random.seed(n)")

    def __init__(self, patch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
        self._restart = random.seed
        self._get_state = random.getstate
        methods = {name for name in random.__all__ if hasattr(getattr(random, name), "__self__")}
        for name in methods - {"seed", "getstate", "setstate", "getrandbits"}:
            patch.setattr(random, name, _surrounded(getattr(random, name), self._draw))
        patch.setattr(random, "getstate", _surrounded(random.getstate, self._get))
        for name in ("seed", "setstate"):
            patch.setattr(random, name, _surrounded(getattr(random, name), before, self._set))

    def start(self) -> None:
        self._restart("unseeded")  # not a seed that tests or Hypothesis use
        self._seeded = self._drawn = False
        self._unseeded_states = {hash(self._get_state())}

    def drawn_unseeded(self) -> bool:
        return self._drawn

    def _draw(self) -> None:
        caller = sys._getframe(2).f_code.co_filename  # of the function that `_surrounded` made
        self._drawn |= not self._seeded and not _is_installed(caller)

    def _get(self) -> None:
        if not self._seeded:
            self._unseeded_states.add(hash(self._get_state()))

    def _set(self) -> None:
        self._seeded = hash(self._get_state()) not in self._unseeded_states  # Hypothesis restores what it found


class GlobalGenerators:
    """Watches all of them; `start` before a test, `complaint` after it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        """Observe the calls that seed, so that a draw before the first seed is noticed; refuse unseeded makers."""
        self._cpu = TorchWatch("torch's global generator", torch.default_generator)
        self._others = [NumpyWatch(patch, self._note_draws), PythonWatch(patch, self._note_draws)]
        patch.setattr(torch, "manual_seed", _surrounded(torch.manual_seed, self._note_draws))
        patch.setattr(torch, "seed", _refused("torch.seed()"))
        patch.setattr(np.random, "default_rng", _only_seeded(np.random.default_rng))
        self.start()

    def start(self) -> None:
        self._complaints: list[str] = []
        devices = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
        gpus = [TorchWatch(f"torch's generator of GPU {i}", generator) for i, generator in enumerate(devices)]
        self._watches = [self._cpu, *gpus, *self._others]
        for watch in self._watches:
            watch.start()

    def complaint(self) -> str | None:
        """What was drawn without a seed since `start`, if anything."""
        self._note_draws()
        return "\n".join(dict.fromkeys(self._complaints)) or None

    def _note_draws(self) -> None:
        drawn = [watch for watch in self._watches if watch.drawn_unseeded()]
        self._complaints += [f"{watch.name} was drawn from without a seed; {watch.advice}" for watch in drawn]


class SeedingPlugin:
    """The hooks of pytest."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._generators = GlobalGenerators(self._patch)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """A test module draws nothing unseeded while it is imported; the first import of a library may."""
        if not isinstance(collector, pytest.Module):
            return (yield)
        self._generators.start()
        libraries = _installed_modules()
        report = yield
        complaint = self._generators.complaint()
        if complaint and report.outcome == "passed" and libraries == _installed_modules():
            report.outcome, report.longrepr = "failed", f"{collector.nodeid}: {complaint}"
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Start before the fixtures: what they draw belongs to the test."""
        self._generators.start()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """A test that passed fails if it was random."""
        result = yield
        complaint = self._generators.complaint()
        if complaint:
            pytest.fail(complaint, pytrace=False)
        return result

    def pytest_unconfigure(self) -> None:
        self._patch.undo()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SeedingPlugin(), "seeding")


def unseeded_torch_generators(source: str) -> list[int]:
    """Lines on which a `torch.Generator()` is not given a seed by the same expression."""
    tree = ast.parse(source)
    made = {id(node): node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_torch_generator(node.func)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "manual_seed":
            made.pop(id(node.value), None)
    return sorted(node.lineno for node in made.values())


def _is_torch_generator(function: ast.expr) -> bool:
    return ast.unparse(function) == "torch.Generator"


def _numpy_state() -> tuple[bytes, int, int, float]:
    _, keys, *position = np.random.get_state()  # noqa: NPY002
    return (keys.tobytes(), *position)


def _installed_modules() -> set[str]:
    """Libraries that are imported; some draw while they are, from generators that nobody has seeded yet."""
    modules = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
    return {name.partition(".")[0] for name, file in modules.items() if _is_installed(file)}


def _is_installed(file: str) -> bool:
    """Whether the code is of Python itself or of an installed package."""
    return "-packages" in file or file.startswith(_STANDARD_LIBRARY)


def _surrounded(
    function: Callable[..., Any], before: Callable[[], None], after: Callable[[], None] = lambda: None
) -> Callable[..., Any]:
    @wraps(function)
    def observed(*arguments: Any, **keywords: Any) -> Any:
        before()
        result = function(*arguments, **keywords)
        after()
        return result

    return observed


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*_arguments: Any) -> NoReturn:
        pytest.fail(f"{name} is random in every run; give it a seed")

    return refuse


def _only_seeded(default_rng: Callable[..., Any]) -> Callable[..., Any]:
    refuse = _refused("np.random.default_rng()")

    @wraps(default_rng)
    def checked(seed: Any = None) -> Any:
        return refuse() if seed is None and not _a_library_is_imported() else default_rng(seed)

    return checked


def _a_library_is_imported() -> bool:
    """Whether an installed module is being imported: SciPy draws the examples of its docstrings then."""
    frames = [frame for frame, _ in traceback.walk_stack(None)]
    return any(
        frame.f_code.co_name == "<module>"
        and _is_installed(frame.f_code.co_filename)
        and caller.f_code.co_filename.startswith("<frozen importlib")  # not run by `python -m`, as pytest is
        for frame, caller in pairwise(frames)
    )
