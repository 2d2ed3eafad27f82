"""How each kind of file is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def readers() -> dict[str, Callable[[Path], object]]:
    """All readers by kind; each raises a `PlueckernetError` or returns."""
    from plueckernet.data.datasets.pickles import read_arrays
    from plueckernet.data.datasets.structured3d import read_structured3d
    from plueckernet.data.prepared import read_index
    from plueckernet.extraction import read_points
    from plueckernet.io import read_lines_report
    from plueckernet.io.trajectories import read_kitti_trajectory, read_tum_trajectory
    from plueckernet.models.weights import load_pretrained
    from plueckernet.result import RegistrationResult
    from plueckernet.training.config import load_config

    return {
        "lines": read_lines_report,
        "points": read_points,
        "pickle": read_arrays,
        "structured3d": read_structured3d,
        "toml": load_config,
        "index": lambda path: read_index(path.parent),
        "trajectory": read_tum_trajectory,
        "kitti": read_kitti_trajectory,
        "weights": load_pretrained,
        "result": RegistrationResult.load,
    }
