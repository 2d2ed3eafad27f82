"""`plueckernet locate`: the result, and the index that is built once."""

from pathlib import Path

import pytest
from tests.cli.helpers import run
from tests.retrieval.sites_for_tests import SPACING, part_of, room, row_of_rooms

from plueckernet import LineIndex, RegistrationResult
from plueckernet.io import write_lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site, and a part of it."""
    folder = tmp_path_factory.mktemp("site")
    whole = row_of_rooms((0, 1, 2))
    write_lines(folder / "site.npz", whole)
    write_lines(folder / "part.npz", part_of(whole, SPACING, 4)[0])
    write_lines(folder / "other.npz", room(9))
    return folder


def test_the_index_is_built_once_and_the_result_is_the_same(folder: Path, tmp_path: Path) -> None:
    index, results = tmp_path / "site.index", []
    for name in ("first.json", "second.json"):
        arguments = ("--index", index, "--json", tmp_path / name, "--matcher", "descriptors", "--quiet")
        assert run("locate", folder / "part.npz", folder / "site.npz", *arguments) == 0
        written = index.stat().st_mtime_ns
        results.append(RegistrationResult.load(tmp_path / name))
    assert index.stat().st_mtime_ns == written
    assert len(LineIndex.load(index)) == results[0].num_lines[1]
    assert results[0].target_T_source.matrix().tolist() == results[1].target_T_source.matrix().tolist()


def test_the_index_of_another_map_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "site.index"
    LineIndex.build(room(9)).save(index)
    before = index.read_bytes()
    assert run("locate", folder / "part.npz", folder / "site.npz", "--index", index) == 2
    assert "index of another map" in capsys.readouterr().err
    assert index.read_bytes() == before


def test_what_is_not_there_gives_exit_code_one(folder: Path) -> None:
    assert run("locate", folder / "other.npz", folder / "site.npz", "--matcher", "descriptors", "--quiet") == 1
