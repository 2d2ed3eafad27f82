"""What the scripts of outside competitors share. They run in environments without torch and without this package.

``PYTHONPATH=src:.`` makes the parts of the package that they need importable; those need nothing but Python.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plueckernet.evaluation.sources import source_hash

_ROOT = Path(__file__).parents[1]


def save_outside(name: str, module: str, versions: Mapping[str, str], content: Mapping[str, Any]) -> None:
    """Write ``results/NAME.json`` with where it comes from, as :mod:`plueckernet.evaluation.provenance` would."""
    changed = _git("status", "--porcelain", "--", ".", ":(exclude)benchmarks/results", ":(exclude)docs")
    sources = {
        "module": module,
        "commit": _git("rev-parse", "HEAD"),
        "clean": None if changed is None else not changed,
        "sources": source_hash(module),
        "weights": {},
        "files": {},
        "environment": {**versions, "python": platform.python_version(), "numpy": np.__version__},
    }
    path = _ROOT / "benchmarks" / "results" / f"{name}.json"
    path.write_text(json.dumps({"provenance": sources, **content}, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _git(*arguments: str) -> str | None:
    try:
        run = subprocess.run(["git", "-C", str(_ROOT), *arguments], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.strip()
