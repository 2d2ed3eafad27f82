"""Pictures of wrong poses that were called a success: the maps under the pose that was found and under the true one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from plueckernet.evaluation.acceptance import AcceptanceData
from plueckernet.evaluation.acceptance_values import AcceptanceValues, Offender
from plueckernet.evaluation.crop_pairs import segments
from plueckernet.evaluation.methods import uncalibrated_method
from plueckernet.evaluation.plots import Axes, Figure, panels, plot_style, style
from plueckernet.evaluation.predictions import Cell, Prediction, read_pose
from plueckernet.evaluation.protocols import LabelledPair, Recorded
from plueckernet.evaluation.runner import Runner
from plueckernet.geometry import LineSet

_VIEWS = (("x", 0, "y", 1), ("x", 0, "z", 2))
_DOTS = 110  # an inch


def draw_offenders(values: AcceptanceValues, data: AcceptanceData, matcher: str, runner: Runner, folder: Path) -> int:
    """Draw every wrong success into the folder; returns how many. Predictions are kept, so nothing is registered."""
    datasets, method = data.datasets(), uncalibrated_method(matcher)
    for name in dict.fromkeys(entry.pairs for entry in values.offenders):
        dataset, count = datasets[name]
        predictions = runner.run([Cell(dataset, Recorded(), method)], count)[0]
        for entry in (entry for entry in values.offenders if entry.pairs == name):
            pair = dataset.pair(Recorded(), entry.index)
            if isinstance(pair, LabelledPair):
                save_picture(folder / picture_name(values.matcher, entry), entry, pair, predictions[entry.index])
    return len(values.offenders)


def picture_name(matcher: str, entry: Offender) -> str:
    """File of one wrong success."""
    return f"{matcher}-{entry.pairs.replace(',', '').replace(' ', '-')}-{entry.index}.png"


def save_picture(path: Path, entry: Offender, pair: LabelledPair, prediction: Prediction) -> None:
    """Two views of either pose, in the frame of the source."""
    poses = {_found_title(entry): read_pose(prediction.candidates[entry.candidate].pose)}
    poses |= {"true pose": pair.target_T_source} if pair.related else {}
    with style():
        figure, axes = panels(len(poses), len(_VIEWS), height=3.2)
        for row, (title, pose) in zip(axes, poses.items(), strict=False):
            moved = pose.inverse() @ pair.target.to(torch.float64)
            for axis, view in zip(row, _VIEWS, strict=True):
                _draw(axis, pair.source, moved, view)
            row[0].set_title(title)
        _save(figure, path)


def _found_title(entry: Offender) -> str:
    error = "different places" if entry.error is None else f"off by {entry.error[0]:.1f}° and {entry.error[1]:.2f} m"
    return f"{', '.join(entry.places)} {entry.index}: {error}, confidence {entry.confidence:.3f}"


def _draw(axes: Axes, source: LineSet, target: LineSet, view: tuple[str, int, str, int]) -> None:
    from matplotlib.collections import LineCollection

    across, first, up, second = view
    for lines, method, width in ((target, "pluecker", 1.3), (source, "ours", 0.7)):
        flat: Any = segments(lines)[..., [first, second]].numpy()
        axes.add_collection(LineCollection(flat, colors=plot_style(method).colour, linewidths=width, alpha=0.8))
    corners = segments(source).reshape(-1, 3)
    for axis, setter in ((first, axes.set_xlim), (second, axes.set_ylim)):
        low, high = float(corners[:, axis].min()), float(corners[:, axis].max())
        setter(low - 0.2 * (high - low) - 0.5, high + 0.2 * (high - low) + 0.5)
    axes.set_aspect("equal", adjustable="box")
    axes.set_xlabel(f"{across} in m (orange: source, blue: target)")
    axes.set_ylabel(f"{up} in m")


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DOTS, metadata={"Software": None})
