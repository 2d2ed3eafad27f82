"""Native code in a child process: a file that makes it crash, hang or allocate without end gives an error.

The child has a limit of memory and of CPU time, the latter by the size of the file.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import MissingDependencyError
from plueckernet.io.native_child import ERROR, MISSING
from plueckernet.io.source import Source

_PROGRAM = Path(__file__).with_name("native_child.py")
_LIMIT_SIGNALS = {"SIGXCPU": "it takes too long", "SIGKILL": "it needs too much time or memory"}


Chunks = Iterator[Float64[np.ndarray, "_ 3"]]


def run_native(source: Source, kind: str, name: str, *arguments: str) -> None:
    """Let native code of this ``kind`` do something with a file or folder; ``name`` is for messages."""
    for _ in native_chunks(source, kind, name, 0, *arguments):
        pass


def native_chunks(source: Source, kind: str, name: str, size: int, *arguments: str) -> Chunks:
    """The points of a file that native code of this ``kind`` reads, ``size`` at a time."""
    command = [sys.executable, "-P", str(_PROGRAM), kind, os.fspath(source.path.resolve())]
    command += [str(size), str(size_of(source.path)), *arguments]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # threads reserve memory
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as child:
        try:
            if child.stdout is not None:
                yield from received_chunks(child.stdout, child.wait, source, name)
        finally:
            child.kill()


def received_chunks(stream: IO[bytes], ended: Callable[[], int], source: Source, name: str) -> Chunks:
    """What a child writes to ``stream``; ``ended`` waits for its end and returns its status."""
    while True:
        count = _number(stream)
        if count == 0:
            return
        if count is not None and count > 0:
            data = stream.read(24 * count)
            if len(data) == 24 * count:
                yield np.frombuffer(data, np.float64).reshape(-1, 3)
                continue
        message = "" if count is None or count > 0 else stream.read(_number(stream) or 0).decode()
        if count == MISSING:
            raise MissingDependencyError(message, "extract")
        if count == ERROR:
            raise source.error(f"not readable as {name}: {message}")
        raise source.error(f"not readable as {name}: {_death(ended())}")


def size_of(path: Path) -> int:
    """Of a file, or of all files of a folder."""
    files = path.iterdir() if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())


def _number(stream: IO[bytes]) -> int | None:
    data = stream.read(8)
    return int(struct.unpack("<q", data)[0]) if len(data) == 8 else None


def _death(status: int) -> str:
    """What ended the child."""
    if status >= 0:
        return f"its reader ended with exit code {status}"
    name = signal.Signals(-status).name
    return _LIMIT_SIGNALS.get(name, f"its reader crashed ({name})")
