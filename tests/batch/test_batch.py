"""A batch: every pair there once, whatever is bad about the others."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.batch.helpers import FakeRegistration, make_pairs, notes
from tests.cli.helpers import FRIDAY, MONDAY

from plueckernet.batch import BatchOptions, BatchPair, PairRegistration, read_batch, read_pairs, run_batch
from plueckernet.batch.store import pending_file
from plueckernet.errors import FormatError, InputError, MissingDependencyError
from plueckernet.parallel import InlineExecutor

needs_pyarrow = pytest.mark.usefixtures("pyarrow")


@pytest.fixture
def pyarrow() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def statuses(out: Path) -> dict[int, tuple[str, str]]:
    rows = list(read_batch(out))
    assert len({row.number for row in rows}) == len(rows)
    return {row.number: (row.status, row.reason) for row in sorted(rows, key=lambda row: row.number)}


@needs_pyarrow
@pytest.mark.parametrize("size", [1, 3])
def test_a_bad_pair_is_a_row_with_its_reason_and_stops_nothing(tmp_path: Path, size: int) -> None:
    pairs = make_pairs(tmp_path / "maps", 5)
    pairs[2] = BatchPair(tmp_path / "missing.obj", pairs[2].target)
    register = FakeRegistration(tmp_path / "computed", raising=(3,))
    seen: list[tuple[int, int]] = []
    options = BatchOptions(size, on_progress=lambda *counts: seen.append(counts))
    summary = run_batch(pairs, tmp_path / "out", register, InlineExecutor(), options)
    assert statuses(tmp_path / "out") == {
        0: ("failed", "fake 0"),
        1: ("failed", "fake 1"),
        2: ("error", f"{tmp_path / 'missing.obj'}: no such file or directory"),
        3: ("error", "RuntimeError: pair 3"),
        4: ("failed", "fake 4"),
    }
    assert notes(tmp_path / "computed") == ["pair 0", "pair 1", "pair 4"]
    assert (summary.pairs, summary.computed, summary.errors) == (5, 5, 2)
    assert seen[-1] == (5, 5)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".driver",
        ".workers",
        "batch.json",
        "results",
    ]


@needs_pyarrow
def test_rows_have_what_the_result_has(tmp_path: Path) -> None:
    """The one test with a real registration, in a process of its own."""
    pair = BatchPair(MONDAY, FRIDAY, "house")
    summary = run_batch([pair], tmp_path, PairRegistration(matcher="descriptors", seed=4))
    (row,) = read_batch(tmp_path)
    result = row.result()
    assert result is not None
    assert (row.name, row.source, row.status) == ("house", str(MONDAY), "success")
    assert summary.statuses == {"success": 1}
    assert (result.seed, result.matcher, result.ok) == (4, "descriptors", True)
    import pyarrow.parquet

    (table,) = pyarrow.parquet.read_table(tmp_path / "results").to_pylist()
    assert table["target_T_source"] == result.target_T_source.matrix().flatten().tolist()
    assert table["num_inliers"] == len(result.inliers)
    assert (table["source_lines"], table["target_lines"]) == result.num_lines


@needs_pyarrow
def test_a_second_run_computes_nothing(tmp_path: Path) -> None:
    pairs = make_pairs(tmp_path / "maps", 3)
    register = FakeRegistration(tmp_path / "computed")
    run_batch(pairs, tmp_path / "out", register, InlineExecutor())
    files = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")}
    assert run_batch(pairs, tmp_path / "out", register, InlineExecutor()).computed == 0
    assert len(notes(tmp_path / "computed")) == 3
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")} == files


@needs_pyarrow
def test_rows_that_are_pending_or_in_two_places_count_once(tmp_path: Path) -> None:
    """A driver that is killed leaves rows that it has not collected, or has collected and not removed."""
    pairs = make_pairs(tmp_path / "maps", 3)
    register, out = FakeRegistration(tmp_path / "computed"), tmp_path / "out"
    run_batch(pairs, out, register, InlineExecutor())
    kept = {row.number: row for row in read_batch(out)}
    (out / "pending").mkdir()
    row = {"number": 1, "status": "failed", "reason": "again", "source": "", "target": "", "name": ""}
    pending_file(out, 1).write_text(json.dumps(row))
    pending_file(out, 2).write_text('{"number": 2, "st')  # what a power failure leaves
    run_batch(pairs, out, register, InlineExecutor())
    assert {row.number: row.reason for row in read_batch(out)} == {number: row.reason for number, row in kept.items()}
    assert len(notes(tmp_path / "computed")) == 3


@needs_pyarrow
def test_another_batch_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    pairs, out = make_pairs(tmp_path / "maps", 2), tmp_path / "out"
    register = FakeRegistration(tmp_path / "computed")
    run_batch(pairs, out, register, InlineExecutor())
    with pytest.raises(InputError, match="another registration: seed was 0, now 1"):
        run_batch(pairs, out, FakeRegistration(tmp_path / "computed", seed=1), InlineExecutor())
    with pytest.raises(InputError, match="another list of pairs"):
        run_batch(pairs[::-1], out, register, InlineExecutor())
    with pairs[0].source.open("a") as stream:
        stream.write("\n")
    with pytest.raises(InputError, match=r"0\.obj: has changed since the batch"):
        run_batch(pairs, out, register, InlineExecutor())


@needs_pyarrow
def test_a_retry_computes_errors_only(tmp_path: Path) -> None:
    pairs, out = make_pairs(tmp_path / "maps", 4), tmp_path / "out"
    moved = pairs[1].source.rename(tmp_path / "away.obj")
    run_batch(pairs, out, FakeRegistration(tmp_path / "computed", raising=(3,)), InlineExecutor())
    assert [status for status, _ in statuses(out).values()] == ["failed", "error", "failed", "error"]
    moved.rename(pairs[1].source)
    register = FakeRegistration(tmp_path / "computed")
    with pytest.raises(InputError, match="--retry"):
        run_batch(pairs, out, register, InlineExecutor())
    summary = run_batch(pairs, out, register, InlineExecutor(), BatchOptions(retry=True))
    assert (summary.computed, summary.statuses) == (2, {"failed": 4})
    assert notes(tmp_path / "computed") == [f"pair {number}" for number in range(4)]


def test_without_pyarrow_the_extra_is_named_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    pairs = make_pairs(tmp_path / "maps", 1)
    with pytest.raises(MissingDependencyError, match=r"plueckernet\[batch\]"):
        run_batch(pairs, tmp_path / "out", FakeRegistration(tmp_path / "computed"), InlineExecutor())
    assert not (tmp_path / "computed").exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("source,target\na.obj,b.obj\n\nc.obj,d.obj\n", ["", ""]),
        ("Name, other, target, source\nx, 1, b.obj, a.obj\ny, 2, d.obj, c.obj\n", ["x", "y"]),
        ("a.obj,b.obj,x\n c.obj , d.obj ,\n", ["x", ""]),
    ],
)
def test_a_list_of_pairs_is_read(tmp_path: Path, text: str, names: list[str]) -> None:
    (tmp_path / "pairs.csv").write_text(text)
    pairs = read_pairs(tmp_path / "pairs.csv")
    assert [(pair.source.name, pair.target.name) for pair in pairs] == [("a.obj", "b.obj"), ("c.obj", "d.obj")]
    assert [pair.name for pair in pairs] == names
    assert pairs[0].source.parent == tmp_path


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no pairs"),
        ("source,target\n", "no pairs"),
        ("source,goal\na,b\n", ":1: expected one column 'target'"),
        ("source,target\na.obj\n", ":2: expected two files"),
        ("a.obj,b.obj\nc.obj,\n", ":2: expected two files"),
        ("a\0.obj,b.obj\n", ":1: "),
    ],
)
def test_a_bad_list_says_where(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(FormatError, match=reason):
        read_pairs(tmp_path / "pairs.csv")
