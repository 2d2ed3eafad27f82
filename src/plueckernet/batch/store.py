"""The folder of a batch. Everything in it is complete or not there.

``batch.json``                    what the batch is; written once
``pending/NUMBER.json``           a row, written by the worker as soon as the pair is computed
``results/part-NUMBER.parquet``   rows that the driver has collected from there; never changed, except by a retry

A row is in a Parquet file or pending. If it is in both, because the driver was killed between writing the first and
removing the second, the pending one does not count. So what is done can always be read from the folder.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from plueckernet.batch.identity import Identity, check_same
from plueckernet.batch.locks import driving
from plueckernet.batch.rows import ERROR, REQUIRED, BatchRow, ResultRow, load_pyarrow, row_schema
from plueckernet.errors import FormatError, InputError
from plueckernet.io.atomic import atomic_write, atomic_write_bytes, clear_leftovers
from plueckernet.io.files import check_regular, read_json

_ROWS = 1000  # most rows of a file
_SECONDS = 30.0  # between two files, if there are new rows
_RESULTS, _PENDING, _IDENTITY = "results", "pending", "batch.json"


def pending_file(folder: Path, number: int) -> Path:
    """Where a worker writes the row of a pair."""
    return folder / _PENDING / f"{number:09d}.json"


def write_pending(folder: Path, row: ResultRow) -> None:
    """Write a row; once this has returned, the pair is never computed again."""
    with atomic_write(pending_file(folder, row["number"])) as stream:
        stream.write(json.dumps(row))


class BatchFolder:
    """The results of a batch, seen by its driver."""

    def __init__(self, path: Path, token: str) -> None:
        self.path, self.token = path, token
        self.done = {int(number) for number in read_column(path, "number")}
        self._written, self._new = time.monotonic(), 0

    @classmethod
    @contextmanager
    def opened(
        cls, path: Path, identity: Identity, on_wait: Callable[[], None] | None, *, retry: bool = False
    ) -> Iterator[BatchFolder]:
        """Begin a batch in a folder, or continue the one that is there; another batch there raises."""
        load_pyarrow()
        try:
            for place in (path, path / _RESULTS, path / _PENDING):
                place.mkdir(parents=True, exist_ok=True)
                clear_leftovers(place)
        except OSError as error:
            raise InputError(f"{path}: cannot be created: {error.strerror}") from error
        with driving(path, on_wait) as token:
            _claim(path, identity, retry=retry)
            if retry:
                _drop_errors(path)
            folder = cls(path, token)
            folder.collect()
            yield folder

    def collect_if_due(self, new: int) -> None:
        """Note that there are new pending rows; collect them if they are many, or if the last time is long ago."""
        self._new += new
        if self._new and (self._new >= _ROWS or time.monotonic() - self._written > _SECONDS):
            self.collect()

    def collect(self) -> None:
        """Move all pending rows to Parquet files."""
        self._written, self._new = time.monotonic(), 0
        files = sorted((self.path / _PENDING).glob("*.json"))
        for start in range(0, len(files), _ROWS):
            self._collect(files[start : start + _ROWS])

    def _collect(self, files: list[Path]) -> None:
        rows = [row for file in files if (row := _readable(file)) is not None and row["number"] not in self.done]
        if rows:
            write_table(_next_file(self.path / _RESULTS), rows)
            self.done.update(row["number"] for row in rows)
        for file in files:
            file.unlink()

    def finish(self) -> Counter[str]:
        """Remove what only an unfinished batch needs; the number of pairs by status."""
        self.collect()
        shutil.rmtree(self.path / _PENDING)
        return Counter(read_column(self.path, "status"))


def read_batch(path: str | Path) -> Iterator[BatchRow]:
    """The rows of a batch, also of one that is running, in the order in which they were collected."""
    columns = list(BatchRow.__dataclass_fields__)
    for file in _result_files(Path(path)):
        for row in _read_table(file, columns).to_pylist():
            yield BatchRow.of(row)


def read_column(path: Path, name: str) -> list[Any]:
    """One column of all rows."""
    return [value for file in _result_files(path) for value in _read_table(file, [name]).column(name).to_pylist()]


def _claim(path: Path, identity: Identity, *, retry: bool) -> None:
    known = path / _IDENTITY
    if known.exists():
        check_same(read_json(known), identity, path, retry=retry)
    elif _result_files(path):
        raise InputError(f"{path}: has results but no {_IDENTITY}; choose another folder")
    with atomic_write(known) as stream:
        stream.write(json.dumps(identity, indent=1) + "\n")


def _drop_errors(path: Path) -> None:
    """Take the rows with an error out of their files, each in one step."""
    for file in _result_files(path):
        rows = _read_table(file, None).to_pylist()
        kept = [row for row in rows if row["status"] != ERROR]
        if not kept:
            file.unlink()
        elif len(kept) < len(rows):
            write_table(file, kept)
    for file in (path / _PENDING).glob("*.json"):
        row = _readable(file)
        if row is None or row["status"] == ERROR:
            file.unlink()


def _result_files(path: Path) -> list[Path]:
    return sorted((path / _RESULTS).glob("part-*.parquet"))


def _next_file(folder: Path) -> Path:
    numbers = [int(file.stem.partition("-")[2]) for file in folder.glob("part-*.parquet")]
    return folder / f"part-{max(numbers, default=-1) + 1:06d}.parquet"


def _readable(file: Path) -> ResultRow | None:
    """A pending row; None if a power failure has left something else."""
    with suppress(FormatError):
        row = read_json(file)
        if isinstance(row, dict) and type(row.get("number")) is int and "status" in row:
            return row
    return None


def write_table(file: Path, rows: Iterable[ResultRow]) -> None:
    """Write rows to a Parquet file in one step."""
    pyarrow = load_pyarrow()
    table = pyarrow.Table.from_pylist(list(rows), schema=row_schema(pyarrow))
    with atomic_write_bytes(file) as stream:
        pyarrow.parquet.write_table(table, stream, compression="zstd")


def _read_table(file: Path, columns: list[str] | None) -> Any:
    """Columns of a file; those that are missing, of another type or empty where none may be raise."""
    pyarrow = load_pyarrow()
    check_regular(file)
    try:
        table = pyarrow.parquet.ParquetFile(file).read(columns=columns)
        table.validate(full=True)  # text that is none
    except (OSError, ValueError, KeyError, TypeError, MemoryError, pyarrow.ArrowException) as error:
        raise FormatError(file, f"not a file of results: {(str(error).splitlines() or [''])[0]}") from error
    for field in row_schema(pyarrow):
        if columns is None or field.name in columns:
            if table.column_names.count(field.name) != 1 or table.schema.field(field.name).type != field.type:
                raise FormatError(file, f"not a file of results: no column {field.name} of the type {field.type}")
            if field.name in REQUIRED and table.column(field.name).null_count:
                raise FormatError(file, f"not a file of results: no value of {field.name}")
    return table
