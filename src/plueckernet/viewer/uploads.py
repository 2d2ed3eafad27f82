"""Files that the page sends: written to disk as they arrive, with limits on their size and number."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from threading import Semaphore

from plueckernet.errors import InputError

MAX_UPLOAD_BYTES = 1 << 30  # of one file
MAX_UPLOADS = 4  # at the same time
_MAX_NAME = 120  # characters
_PIECE = 1 << 20  # bytes in memory at a time


class Uploads:
    """Keeps files that arrive until they have been read."""

    def __init__(self, folder: Path, max_bytes: int = MAX_UPLOAD_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._free = Semaphore(MAX_UPLOADS)

    @contextmanager
    def received(self, name: str, size: int, stream: BufferedIOBase) -> Iterator[Path]:
        """A file with ``size`` bytes of a stream; it is deleted after the block."""
        if not 0 <= size <= self._max_bytes:
            raise InputError(f"the file has more than {self._max_bytes / 1e6:,.0f} MB; open it on the command line")
        if not self._free.acquire(blocking=False):
            raise InputError("too many files at the same time; wait and try again")
        place: Path | None = None
        try:
            place = Path(tempfile.mkdtemp(dir=self._folder))
            path = place / plain_name(name)
            _copy(stream, path, size)
            yield path
        except OSError as error:
            raise InputError(f"the file cannot be kept: {error.strerror or error}") from error
        finally:
            self._free.release()
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)


def _copy(stream: BufferedIOBase, path: Path, size: int) -> None:
    with path.open("wb") as file:
        left = size
        while left:
            piece = stream.read(min(left, _PIECE))
            if not piece:
                raise InputError("the file did not arrive as announced")
            file.write(piece)
            left -= len(piece)


def plain_name(name: str) -> str:
    """A file name without folders; suffixes stay, because they may decide the format."""
    last = name.replace("\\", "/").rpartition("/")[2].replace("\0", "")
    return "map" if last in ("", ".", "..") else last[-_MAX_NAME:]
