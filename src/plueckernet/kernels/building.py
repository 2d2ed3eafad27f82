"""Compile the C sources beside this file: ``python -m plueckernet.kernels.building``, which installing does by itself.

The library has a hash of the sources in its name, so that one of other sources is never loaded. There is one for any
CPU of the architecture and, on x86-64, one for CPUs with AVX2 and one for those with AVX-512. Nothing but
this folder and a C compiler is needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-g0")
_AVX2 = "-mavx2", "-mfma", "-mbmi", "-mbmi2"
_AVX512 = "-mavx512f", "-mavx512dq", "-mavx512cd", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512"
VARIANTS = {"": (), "-avx2": _AVX2, "-avx512": (*_AVX2, *_AVX512)}  # by the name's ending
_COMPILERS = ("cc", "gcc", "clang")


def library_path(variant: str = "") -> Path:
    """Where the library of the present sources is, or would be."""
    digest = hashlib.sha256()
    for path in sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return FOLDER / f"_kernels-{digest.hexdigest()[:12]}{variant}{_SUFFIX}"


def variants() -> tuple[str, ...]:
    """The kinds of libraries for the architecture of this machine, the most general first."""
    return tuple(VARIANTS) if platform.machine().lower() in ("x86_64", "amd64") else ("",)


def compiler() -> list[str] | None:
    """The command of a C compiler: that of the variable CC, the system's, or Zig's from PyPI; None without any."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in _COMPILERS:
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else None


def build() -> list[Path]:
    """Compile what is missing and remove libraries of other sources; returns those there are, which may be none."""
    command, paths = compiler(), [library_path(variant) for variant in variants()]
    for variant, path in zip(variants(), paths, strict=True):
        if not path.exists() and command is not None:
            compile_library(path, *VARIANTS[variant])
    for path in FOLDER.glob(f"_kernels-*{_SUFFIX}"):
        if path not in paths:
            path.unlink()
    return [path for path in paths if path.exists()]


def compile_library(path: Path, *flags: str) -> None:
    """Compile with further flags; a compiler that fails says why and leaves no file.

    The file gets its name when it is complete, so that no process loads half a library.
    """
    unfinished = path.with_name(f"unfinished-{os.getpid()}-{path.name}")
    sources = map(str, sorted(FOLDER.glob("*.c")))
    try:
        command = [*(compiler() or ["cc"]), *_FLAGS, *flags, *sources, "-lm", "-o", str(unfinished)]
        if subprocess.run(command, check=False).returncode == 0:
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


if __name__ == "__main__":
    built = build()
    sys.exit(None if built else "no C compiler made the kernels; NumPy and PyTorch compute everything, more slowly")
