"""Every reader on a few mutated files, on bytes that hypothesis makes, and on all inputs that once failed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.mutation import mutated
from tests.fuzz.targets import CORPUS, NAMES, Target, targets

from plueckernet.errors import PlueckernetError
from plueckernet.io import FORMATS

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of NumPy and others, about the numbers in damaged files
    pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system cannot fork"),
]
SLOW = ("card", "points-laz", "points-e57", "lines-dxf", "lines-ifc")


def target_of(name: str) -> Target:
    if name not in targets():
        pytest.skip(f"the package that reads {name} is not installed")
    return targets()[name]


def survives(target: Target, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        target.read(path)
    except PlueckernetError as error:
        str(error).encode()  # it can be printed


@pytest.mark.parametrize("name", NAMES)
def test_mutated_files_give_lines_or_our_errors(name: str, tmp_path: Path) -> None:
    target, generator = target_of(name), random.Random(name)
    for _ in range(3 if name in SLOW else 40):
        survives(target, tmp_path / target.file, mutated(target.seeds, generator))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bytes_of_hypothesis_give_our_errors(name: str, tmp_path: Path, data: st.DataObject) -> None:
    target = target_of(name)
    seed = data.draw(st.sampled_from(target.seeds))
    start = data.draw(st.integers(0, len(seed)))
    survives(target, tmp_path / target.file, seed[:start] + data.draw(st.binary(max_size=64)) + seed[start:])


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_inputs_that_once_failed(path: Path, tmp_path: Path) -> None:
    target = target_of(path.parent.name)
    survives(target, tmp_path / target.file, path.read_bytes())


def test_every_target_is_listed_and_every_format_of_lines_has_one() -> None:
    assert set(targets()) <= set(NAMES)
    without = {known.name for known in FORMATS if f"lines-{known.name}" not in NAMES}
    assert not without  # give a new format seeds in `tests/fuzz/targets.py`


def test_mutations_are_the_same_for_the_same_seed() -> None:
    seeds = target_of("lines-obj").seeds
    first, second = ([mutated(seeds, random.Random(n)) for n in range(50)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 40
