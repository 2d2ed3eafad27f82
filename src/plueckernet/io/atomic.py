"""Atomic writing of files."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, cast

from plueckernet.errors import InputError

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows
    _has_locks = False
else:
    _has_locks = True

_TOKEN_BYTES = 6
_LEFTOVER = re.compile(rf"\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.part")
_cleared: set[Path] = set()  # folders in which this process has looked for leftovers


@contextmanager
def atomic_write(path: str | Path) -> Iterator[TextIO]:
    """Open `path` for UTF-8 text; the file appears only after the block has ended without an error.

    The text goes to a temporary file in the same folder, which then replaces `path` in one step. If anything fails,
    an existing file at `path` stays unchanged and the temporary file is removed. Links are followed, the permissions
    of an existing file are kept, and a device such as `/dev/stdout` is written directly. A process that is killed
    leaves its temporary file; the next one that writes into the folder removes it.

    Raises:
        InputError: The file cannot be written: no such folder, no permission, disk full.
    """
    with _replacing(Path(path), "x") as handle:
        yield cast(TextIO, handle)


@contextmanager
def atomic_write_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open `path` for bytes; otherwise like `atomic_write`."""
    with _replacing(Path(path), "xb") as handle:
        yield cast(BinaryIO, handle)


@contextmanager
def _replacing(path: Path, mode: str) -> Iterator[IO[str] | IO[bytes]]:
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise IsADirectoryError(None, "is a directory")
        if target.exists() and not target.is_file():  # a device
            with _opened(target, mode.replace("x", "w")) as handle:
                yield handle
            return
        clear_leftovers(target.parent)
        temporary, handle = _temporary(target.parent, mode)
        try:
            with handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
                if target.exists():
                    shutil.copymode(target, temporary)
                temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _temporary(folder: Path, mode: str) -> tuple[Path, IO[str] | IO[bytes]]:
    """A new file, locked as long as it is open; not made by `tempfile`, so that it gets the user's permissions."""
    while True:
        path = folder / f".{secrets.token_hex(_TOKEN_BYTES)}.part"
        handle = _opened(path, mode)
        if _locked(handle) and path.exists():  # another process may have cleared it before it was locked
            return path, handle
        handle.close()


def _opened(path: Path, mode: str) -> IO[str] | IO[bytes]:
    # Names of files may have bytes that are not UTF-8; they are written as escapes.
    if "b" in mode:
        return path.open(mode)
    return path.open(mode, encoding="utf-8", newline="\n", errors="backslashreplace")


def clear_leftovers(folder: Path) -> None:
    """Remove what processes that were killed have left in a folder: unlocked temporary files. Done once a folder."""
    if not _has_locks or folder in _cleared:
        return
    _cleared.add(folder)
    with suppress(OSError):
        for path in folder.iterdir():
            if _LEFTOVER.fullmatch(path.name):
                with suppress(OSError), path.open("rb") as handle:
                    if _locked(handle):
                        path.unlink()


def _locked(handle: IO[Any]) -> bool:
    """Lock an open file against other processes; whether that succeeded."""
    if not _has_locks:
        return True
    try:
        flock(handle.fileno(), LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return "r" not in handle.mode
    return True
