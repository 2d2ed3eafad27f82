"""`plueckernet odometry`: the trajectory of a sensor from the lines of its frames."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plueckernet.cli.options import MatcherOption, SetOption

if TYPE_CHECKING:
    from plueckernet.data.datasets import SensorFrame
    from plueckernet.io.trajectories import Trajectory
    from plueckernet.odometry import OdometryResult


def odometry(
    sequence: Annotated[
        Path, typer.Argument(metavar="SEQUENCE", help="Folder: TUM RGB-D, 7-Scenes, KITTI, scans, or line maps.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the trajectory, the map and the picture.")],
    layout: Annotated[
        str | None, typer.Option(help="tum, 7scenes, kitti, scans or lines.", show_default="from the files")
    ] = None,
    from_format: Annotated[
        str | None,
        typer.Option("--from", metavar="FORMAT", help="Format of the scans or line maps.", show_default="by content"),
    ] = None,
    local_map: Annotated[
        bool,
        typer.Option(
            "--local-map/--frame-to-frame", help="Refine each frame on the recent lines, or only register it."
        ),
    ] = True,
    matcher: MatcherOption = "invariant",
    settings: SetOption = None,
) -> None:
    """Track a sensor: register each frame to the previous one, without an initial guess.

    Writes trajectory_tum.txt, trajectory_kitti.txt, map.obj (lines seen at least twice), odometry.json and, with
    matplotlib, top_down.png. If the sequence has true poses, it reports the drift as TUM and KITTI define it.
    """
    from plueckernet.cli.progress import slow_bar
    from plueckernet.data.datasets import CloudFrame, open_sequence
    from plueckernet.errors import FormatError
    from plueckernet.io.files import make_folder
    from plueckernet.matchers import load_matcher
    from plueckernet.odometry import OdometrySettings, track
    from plueckernet.sensing import frame_lines
    from plueckernet.settings import with_values

    chosen = with_values(OdometrySettings(local_map=local_map), settings or ())
    line_matcher = load_matcher(matcher)
    frames = open_sequence(sequence, layout, from_format)
    make_folder(out)
    kept: list[SensorFrame] = []
    with slow_bar(f"tracking {len(frames)} frames") as progress:

        def read() -> Iterator[tuple[str, float, Any]]:
            for index, frame in enumerate(frames):
                progress(index / len(frames), frame.name)
                try:
                    lines = frame_lines(frame)
                except FormatError as error:
                    if not isinstance(frame, CloudFrame) or len(frames) == 1:
                        raise
                    typer.echo(f"left out {error}", err=True)
                    continue
                kept.append(frame)
                yield frame.name, frame.time, lines

        result = track(read(), settings=chosen, matcher=line_matcher)
    frames = kept
    drift = _drift(result, frames)
    for note in _write(out, result, frames, drift):
        typer.echo(note, err=True)
    for line in _report(result, drift):
        typer.echo(line)


def _truth(frames: list[SensorFrame]) -> tuple[list[int], Trajectory] | None:
    """The frames whose true pose is known, and their poses relative to the first of them."""
    import torch

    from plueckernet.io.trajectories import Trajectory, stack_poses

    rows = [row for row, frame in enumerate(frames) if frame.world_T_sensor is not None]
    if len(rows) < 2:
        return None
    times = torch.tensor([frames[row].time for row in rows], dtype=torch.float64)
    poses = [pose for row in rows if (pose := frames[row].world_T_sensor) is not None]
    return rows, Trajectory(times, poses[0].inverse() @ stack_poses(poses))


def _drift(result: OdometryResult, frames: list[SensorFrame]) -> dict[str, Any] | None:
    from dataclasses import asdict

    import torch

    from plueckernet.io.trajectories import Trajectory
    from plueckernet.odometry import absolute_error, kitti_error, relative_error

    known = _truth(frames)
    if known is None:
        return None
    rows, truth = known
    trajectory = result.trajectory()
    estimated = Trajectory(trajectory.times[rows], trajectory.world_T_sensor[torch.tensor(rows)])
    kitti = kitti_error(estimated, truth)
    return {
        "frames": len(rows),
        "relative": asdict(relative_error(estimated, truth)),
        "absolute": absolute_error(estimated, truth),
        "kitti": None if kitti is None else asdict(kitti),
    }


def _write(out: Path, result: OdometryResult, frames: list[SensorFrame], drift: dict[str, Any] | None) -> Iterator[str]:
    """Write all files; yields messages about them."""
    import torch

    from plueckernet.data.datasets import CameraFrame
    from plueckernet.errors import MissingDependencyError
    from plueckernet.io import write_lines
    from plueckernet.io.atomic import atomic_write
    from plueckernet.io.trajectories import write_kitti_trajectory, write_tum_trajectory
    from plueckernet.odometry.plot import save_top_down

    trajectory, confirmed = result.trajectory(), result.line_map.seen >= 2
    write_tum_trajectory(out / "trajectory_tum.txt", trajectory)
    write_kitti_trajectory(out / "trajectory_kitti.txt", trajectory)
    if bool(confirmed.any()):
        write_lines(out / "map.obj", result.line_map.lines(confirmed))
    else:
        yield "no map: no line was seen twice"
    with atomic_write(out / "odometry.json") as stream:
        stream.write(json.dumps({"drift": drift, "steps": _steps(result)}, indent=1, allow_nan=False) + "\n")
    known = _truth(frames)
    up = torch.tensor([0.0, -1.0, 0.0] if isinstance(frames[0], CameraFrame) else [0.0, 0.0, 1.0], dtype=torch.float64)
    try:
        save_top_down(out / "top_down.png", trajectory, result.line_map.lines(confirmed), known and known[1], up)
    except MissingDependencyError as error:
        yield f"no picture: {error}"
    yield f"written to {out}: {', '.join(sorted(path.name for path in out.iterdir()))}"


def _steps(result: OdometryResult) -> list[dict[str, Any]]:
    return [
        {
            "name": step.name,
            "time": step.time,
            "tracking": str(step.tracking),
            "confidence": step.confidence,
            "lines": step.lines,
            "inliers": step.inliers,
            "on_map": step.on_map,
            "world_T_sensor": step.world_T_sensor.matrix().tolist(),
        }
        for step in result.steps
    ]


def _report(result: OdometryResult, drift: dict[str, Any] | None) -> Iterator[str]:
    counts = Counter(str(step.tracking) for step in result.steps[1:])
    yield f"{len(result.steps)} frames: {', '.join(f'{count} {how}' for how, count in counts.items())}"
    yield f"map: {int((result.line_map.seen >= 2).sum())} lines seen in at least two frames"
    if drift is None:
        return
    relative, kitti = drift["relative"], drift["kitti"]
    yield (
        f"relative error, frame to frame: {relative['translation_rmse']:.4f} m and {relative['rotation_rmse']:.3f}°"
        f" (RMS over {relative['pairs']} pairs)"
    )
    yield f"absolute error: {drift['absolute']:.4f} m (RMS)"
    if kitti is not None:
        yield f"drift over 100 to 800 m: {kitti['translation']:.2%} and {kitti['rotation']:.4f}°/m"
