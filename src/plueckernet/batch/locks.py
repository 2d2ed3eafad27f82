"""One driver at a time, and no worker of an earlier driver beside the present ones.

A worker holds a shared lock while it works. A new driver waits for the exclusive lock, so that workers whose driver was
killed complete their pairs first, and writes its token into the locked file. A worker with another token does nothing.
Where the file system has no locks, none of this is checked.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from plueckernet.errors import InputError

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
except ImportError:  # Windows
    _has_locks = False
else:
    _has_locks = True

_DRIVER, _WORKERS = ".driver", ".workers"


@contextmanager
def driving(folder: Path, on_wait: Callable[[], None] | None) -> Iterator[str]:
    """Be the only driver of a folder; gives the token for its workers.

    ``on_wait`` is called if workers of an earlier driver have to end first.
    """
    with (folder / _DRIVER).open("a") as handle:
        if not _locked(handle, shared=False, patient=False):
            raise InputError(f"{folder}: another run is writing to this folder")
        yield _new_token(folder, on_wait)


def _new_token(folder: Path, on_wait: Callable[[], None] | None) -> str:
    token = secrets.token_hex(8)
    with (folder / _WORKERS).open("a+") as handle:
        if not _locked(handle, shared=False, patient=False):
            if on_wait is not None:
                on_wait()
            _locked(handle, shared=False, patient=True)
        handle.truncate(0)
        handle.write(token)
        handle.flush()
        if _has_locks:
            flock(handle.fileno(), LOCK_UN)
    return token


@contextmanager
def working(folder: Path, token: str) -> Iterator[bool]:
    """Work for the driver with this token; False if another driver has taken its place."""
    with (folder / _WORKERS).open() as handle:
        _locked(handle, shared=True, patient=True)
        yield handle.read() == token


def _locked(handle: IO[Any], *, shared: bool, patient: bool) -> bool:
    if not _has_locks:
        return True
    try:
        flock(handle.fileno(), (LOCK_SH if shared else LOCK_EX) | (0 if patient else LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
