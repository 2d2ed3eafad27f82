"""What is fuzzed: a reader, and files that it reads."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from plueckernet.errors import FormatError, PlueckernetError
from plueckernet.io import native, native_child
from plueckernet.io.source import Source

_ACCEPTED, _REFUSED, _FOREIGN = 0, 3, 4


@dataclass(frozen=True)
class Target:
    """A reader of files with this name."""

    read: Callable[[Path], object]
    file: str
    seeds: tuple[bytes, ...]


def folder_target(
    read: Callable[[Path], object], files: Mapping[str, bytes], fixed: Mapping[str, bytes] = {}
) -> Target:
    """A reader of a folder, of which one file is mutated: an input is its name, a line feed and its content."""

    def read_folder(path: Path) -> object:
        name, _, content = path.read_bytes().partition(b"\n")
        if name.decode("ascii", "replace") not in files:
            raise FormatError(path, "not the name of a file of the folder")
        folder = path.parent / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        for known, data in {**files, **fixed, name.decode(): content}.items():
            (folder / known).parent.mkdir(parents=True, exist_ok=True)
            (folder / known).write_bytes(data)
        return read(folder)

    return Target(read_folder, "file", tuple(name.encode() + b"\n" + data for name, data in files.items()))


def forked(function: Callable[[], object]) -> None:
    """Call a function in a fork: what is native may end the process, which would be a failure."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = _FOREIGN
        try:
            function()
            code = _ACCEPTED
        except PlueckernetError:
            code = _REFUSED
        except BaseException:  # noqa: BLE001 - told to the parent
            os.write(write_end, traceback.format_exc(limit=-3).encode()[-4000:])
        finally:
            os._exit(code)
    os.close(write_end)
    try:
        with os.fdopen(read_end, "rb") as stream:
            told = stream.read().decode(errors="replace")
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise
    if code == _REFUSED:
        raise PlueckernetError("refused")
    if code != _ACCEPTED:
        raise RuntimeError(f"the reader ended with {code}: {told}")


def forked_native(source: Source, kind: str, *arguments: str) -> None:
    """What `run_native` does, in a fork instead of a new interpreter: a hundred times faster."""
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(ends[0])
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(ends[1], "wb") as out:
                native_child.main(kind, str(source.path), 1000, native.size_of(source.path), out, *arguments)
        os._exit(0)
    os.close(ends[1])
    try:
        with os.fdopen(ends[0], "rb") as stream:
            for _ in native.received_chunks(stream, lambda: _status(child), source, kind):
                pass
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, 9)
            os.waitpid(child, 0)


def _status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
