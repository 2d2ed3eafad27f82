"""No kernel reads or writes outside of its arrays: their tests run once more with sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kernels.helpers import needs_kernels

from plueckernet.kernels.building import VARIANTS, compile_library
from plueckernet.kernels.library import SWITCH, kind

ROOT = Path(__file__).parents[2]
FLAGS = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")


def _runtime() -> str | None:
    """The address sanitizer that has to be loaded before Python is; None if the compiler has none."""
    command = ["gcc", "-print-file-name=libasan.so"]
    try:
        path = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return path if Path(path).is_absolute() else None


@needs_kernels
@pytest.mark.skipif(SWITCH in os.environ, reason="this is the run with sanitizers")
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name in ("", f"-{kind()}")])
def test_kernels_stay_within_their_arrays(variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = _runtime()
    if runtime is None:
        pytest.skip("there is no gcc with the address sanitizer")
    monkeypatch.setenv("CC", "gcc")
    library = tmp_path / "kernels.so"
    compile_library(library, *VARIANTS[variant], *FLAGS)
    variables = {SWITCH: str(library), "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/kernels"]
    command += ["--ignore=tests/kernels/test_building.py", "--ignore=tests/kernels/test_sanitizers.py"]
    run = subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
