"""A trajectory and its map from above; needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError, MissingDependencyError
from plueckernet.geometry import LineSet
from plueckernet.io.trajectories import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAP, _PATH, _TRUTH = "#94a3b8", "#c2410c", "#1d4ed8"


def save_top_down(
    path: Path, trajectory: Trajectory, lines: LineSet, truth: Trajectory | None, up: Float[Tensor, "3"]
) -> None:
    """Draw the path, the true path if it is known, and the map, seen against ``up``; beside it the paths alone.

    All coordinates are in the frame of the first sensor frame.
    """
    try:
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "plot") from error

    plane = _plane(up)
    figure = Figure(figsize=(11, 5.5), dpi=110, layout="constrained", facecolor="white")
    with_map, path_alone = figure.subplots(1, 2)
    if lines.endpoints is not None and len(lines):
        strokes = list((lines.endpoints @ plane.mT).numpy())
        with_map.add_collection(LineCollection(strokes, colors=_MAP, linewidths=0.7, label="map", zorder=1))
    for axes, title in ((with_map, "path and map"), (path_alone, "path")):
        _draw_paths(axes, trajectory, truth, plane)
        axes.set_title(title, fontsize=12, color="#333333")
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xlabel("m")
        axes.set_ylabel("m")
        axes.legend(loc="best", fontsize=9, frameon=False)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written: {error}") from error


def _draw_paths(axes: Axes, trajectory: Trajectory, truth: Trajectory | None, plane: Float[Tensor, "2 3"]) -> None:
    paths = [("estimated", trajectory, _PATH, "-")]
    if truth is not None:
        paths.append(("true", truth, _TRUTH, "--"))
    for name, path, colour, style in paths:
        x, y = (path.world_T_sensor.translation @ plane.mT).mT.numpy()
        axes.plot(x, y, style, color=colour, linewidth=1.6, label=name, zorder=3)
    start = trajectory.world_T_sensor.translation[0] @ plane.mT
    axes.plot(*start.tolist(), "o", color="#111827", markersize=5, label="start", zorder=4)


def _plane(up: Float[Tensor, "3"]) -> Float[Tensor, "2 3"]:
    """Two axes perpendicular to ``up``; the first is as close to x as possible."""
    up = up / up.norm()
    x = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    if float(x @ up) ** 2 > 0.9:
        x = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    first = x - (x @ up) * up
    first = first / first.norm()
    return torch.stack([first, torch.linalg.cross(up, first)])
