"""Atomic writing of files."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, TextIO, cast

from plueckernet.errors import InputError


@contextmanager
def atomic_write(path: str | Path) -> Iterator[TextIO]:
    """Open `path` for UTF-8 text; the file appears only after the block has ended without an error.

    The text goes to a temporary file in the same folder, which then replaces `path` in one step. If anything fails,
    an existing file at `path` stays unchanged and the temporary file is removed. Links are followed, the permissions
    of an existing file are kept, and a device such as `/dev/stdout` is written directly.

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
    direct = target.exists() and not (target.is_file() or target.is_dir())
    # Not made by `tempfile`, so that the file gets the permissions of the user's umask.
    temporary = target if direct else target.with_name(f".{secrets.token_hex(6)}.part")
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    try:
        if target.is_dir():
            raise IsADirectoryError(None, "is a directory")
        how = mode.replace("x", "w") if direct else mode
        # Names of files may have bytes that are not UTF-8; they are written as escapes.
        errors = None if encoding is None else "backslashreplace"
        handle = temporary.open(how, encoding=encoding, newline=newline, errors=errors)
        try:
            with handle:
                yield handle
                if not direct:
                    handle.flush()
                    os.fsync(handle.fileno())
            if not direct:
                if target.exists():
                    shutil.copymode(target, temporary)
                temporary.replace(target)
        except BaseException:
            if not direct:
                temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
