"""A picture of two line maps before and after registration; needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from plueckernet.errors import InputError, MissingDependencyError
from plueckernet.estimation.judgement import Status
from plueckernet.report.picture import Panel, before_and_after
from plueckernet.report.words import BEFORE_TITLE, PICTURE_TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from plueckernet.geometry import LineSet
    from plueckernet.geometry.similarity import Transform

SOURCE_COLOUR, TARGET_COLOUR = "#c2410c", "#93c5fd"


def save_plot(
    path: str | Path,
    source: LineSet,
    target: LineSet,
    pose: Transform | None,
    after: str = PICTURE_TITLES[Status.SUCCESS],
) -> None:
    """Draw the maps before registration and, if there is a pose, aligned by it under the title ``after``."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "plot") from error

    panels = before_and_after(source, target, pose, elevation=50.0, turn=30.0)
    figure = Figure(figsize=(5.5 * len(panels), 4.6), dpi=110, layout="constrained", facecolor="white")
    titles = [PICTURE_TITLES[Status.FAILED]] if pose is None else [BEFORE_TITLE, after]
    for axes, panel, title in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, titles, strict=True):
        _draw(axes, panel, title)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written: {error}") from error


def _draw(axes: Axes, panel: Panel, title: str) -> None:
    from matplotlib.collections import LineCollection

    # The target is broad and pale, so that a source line on top of it does not hide it.
    for name, strokes, colour, width in (
        ("target", panel.target, TARGET_COLOUR, 2.1),
        ("source", panel.source, SOURCE_COLOUR, 0.8),
    ):
        axes.add_collection(
            LineCollection(list(strokes), colors=colour, linewidths=width, capstyle="round", label=name)
        )
    axes.set_aspect("equal", adjustable="datalim")
    axes.autoscale_view()
    axes.set_axis_off()
    axes.set_title(title, fontsize=12, color="#333333")
    axes.legend(loc="lower left", frameon=False, fontsize=9)
