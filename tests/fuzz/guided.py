"""Fuzz one reader guided by coverage, where atheris is installed: `python -m tests.fuzz.guided TARGET [SECONDS]`.

The first input that fails ends it: libFuzzer writes that input to build/fuzz and the program ends with an error.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["plueckernet"], enable_loader_override=False):
    from tests.fuzz.targets import targets
    from tests.fuzz.worker import outcome, raise_hang

OUT = Path("build/fuzz")


def main(name: str, seconds: str = "60") -> None:
    """Mutate the seeds of a target for some seconds."""
    target = targets()[name]
    OUT.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGALRM, raise_hang)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for place, seed in enumerate(target.seeds):
            (corpus / str(place)).write_bytes(seed)
        path = Path(folder) / target.file

        def read(data: bytes) -> None:
            path.write_bytes(data)
            what, where = outcome(target, path)
            if what not in ("accepted", "refused"):
                raise RuntimeError(f"{name}: {what}\n{where}")

        options = ["-max_len=8192", f"-max_total_time={seconds}", f"-artifact_prefix={OUT}/{name}-"]
        atheris.Setup([sys.argv[0], *options, str(corpus)], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
