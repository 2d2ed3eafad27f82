"""Output files that appear whole or not at all, for writers that want a path of their own."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plueckernet.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path`, with the same suffix, that replaces it after the block has ended without an error."""
    temporary = path.with_name(f".{secrets.token_hex(6)}{path.suffix}")
    try:
        yield temporary
        if path.is_dir() and temporary.is_dir():
            shutil.rmtree(path)
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        temporary.unlink(missing_ok=True)
