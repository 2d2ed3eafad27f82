"""`plueckernet extract`: lines from a point cloud or from colour images with depth."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from plueckernet.cli.options import ForceOption
from plueckernet.cli.workers import RayOption, WorkersOption

if TYPE_CHECKING:
    from plueckernet.data.datasets.frames import CameraFrame
    from plueckernet.extraction import ExtractedLines


_ViewpointOption = Annotated[
    tuple[float, float, float] | None,
    typer.Option(metavar="X Y Z", help="Scanner position of a single scan; removes edges of shadows."),
]
_IntrinsicsOption = Annotated[
    tuple[float, float, float, float] | None,
    typer.Option(metavar="FX FY CX CY", help="Intrinsics of the camera, in pixels."),
]


def extract(
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="CLOUD", help="Point cloud; with --rgbd COLOUR DEPTH, or a folder of frames."),
    ],
    out: Annotated[Path, typer.Option(metavar="LINES", help="File to write; with --rgbd FOLDER, a folder.")],
    rgbd: Annotated[
        bool, typer.Option("--rgbd", help="Read colour images with depth instead of a point cloud.")
    ] = False,
    quality: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write length, support and residual of each line as CSV.")
    ] = None,
    spacing: Annotated[
        float | None,
        typer.Option(
            metavar="LENGTH", help="Downsample the cloud to this point spacing.", show_default="from the cloud"
        ),
    ] = None,
    min_length: Annotated[
        float | None,
        typer.Option(metavar="LENGTH", help="Shortest line to keep.", show_default="from the cloud; 0.08 for images"),
    ] = None,
    viewpoint: _ViewpointOption = None,
    tile_points: Annotated[
        int, typer.Option(min=10_000, help="Process larger clouds in tiles; about 1 GB per million points.")
    ] = 2_000_000,
    workers: WorkersOption = None,
    ray: RayOption = None,
    intrinsics: _IntrinsicsOption = None,
    depth_unit: Annotated[float, typer.Option(help="Metres per unit of DEPTH.")] = 0.001,
    from_format: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Format of CLOUD.", show_default="by content")
    ] = None,
    force: ForceOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Extract straight edges from a point cloud, or from colour images with depth, as a line map.

    Clouds: PLY, PCD, LAS, LAZ, E57, VTK, NPY, KITTI's .bin, and text (XYZ, PTS, CSV).
    """
    from plueckernet.cli.outputs import check_outputs
    from plueckernet.cli.progress import slow_bar
    from plueckernet.cli.workers import few_or_chosen
    from plueckernet.errors import InputError
    from plueckernet.extraction import PointCloudSettings, extract_lines
    from plueckernet.io.writing import writable_format

    check_outputs([quality, *([] if rgbd and len(inputs) == 1 else [out])], inputs, force)
    if rgbd:
        _frames(inputs, out, intrinsics, depth_unit, min_length, quality, quiet)
        return
    if len(inputs) != 1:
        raise InputError(f"expected one point cloud, got {len(inputs)} files; images with depth need --rgbd")
    writable_format(out)
    settings = PointCloudSettings(
        spacing=_positive("--spacing", spacing), min_length=_positive("--min-length", min_length),
        viewpoint=viewpoint, tile_points=tile_points,
    )  # fmt: skip
    with slow_bar(f"extracting lines from {inputs[0].name}") as progress:
        extracted = extract_lines(
            inputs[0], settings, progress, format=from_format, executor=few_or_chosen(workers, ray)
        )
    _write(extracted, inputs[0], out, quality, quiet)


def _frames(
    inputs: list[Path],
    out: Path,
    intrinsics: tuple[float, float, float, float] | None,
    depth_unit: float,
    min_length: float | None,
    quality: Path | None,
    quiet: bool,
) -> None:
    from plueckernet.cli.progress import slow_bar
    from plueckernet.errors import InputError
    from plueckernet.extraction import Intrinsics, RgbdSettings, extract_rgbd
    from plueckernet.io import write_lines
    from plueckernet.io.files import make_folder
    from plueckernet.sensing import camera_images

    def lines(frame: CameraFrame) -> ExtractedLines:
        shortest = _positive("--min-length", min_length) or RgbdSettings.min_length
        settings = RgbdSettings(min_length=shortest, max_depth=frame.furthest, noise=frame.depth_noise)
        return extract_rgbd(*camera_images(frame), Intrinsics(*frame.intrinsics), settings)

    if len(inputs) == 1:
        frames = _sequence(inputs[0])
        if quality is not None:
            raise InputError("--quality is for one frame, not for a folder")
        make_folder(out)
        counts = []
        with slow_bar(f"extracting lines from {len(frames)} frames") as progress:
            for done, frame in enumerate(frames):
                extracted = lines(frame)
                counts.append(len(extracted))
                if len(extracted) == 0:
                    typer.echo(f"{frame.colour}: no lines found, no map written", err=True)
                else:
                    write_lines(out / f"{frame.name}.obj", extracted.lines)
                progress((done + 1) / len(frames))
        if not quiet:
            span = f"{min(counts)} to {max(counts)} lines each, median {median(counts):g}"
            typer.echo(f"{inputs[0]}: {len(frames)} frames, {span}; maps written to {out}", err=True)
        return
    if len(inputs) != 2 or intrinsics is None:
        raise InputError("--rgbd: expected a folder of frames, or COLOUR DEPTH and --intrinsics FX FY CX CY")
    _write(lines(_frame(inputs[0], inputs[1], intrinsics, depth_unit)), inputs[0], out, quality, quiet)


def _sequence(folder: Path) -> list[CameraFrame]:
    from plueckernet.data.datasets.frames import CameraFrame
    from plueckernet.data.datasets.sequences import open_sequence
    from plueckernet.errors import FormatError

    frames = [frame for frame in open_sequence(folder) if isinstance(frame, CameraFrame)]
    if not frames:
        raise FormatError(folder, "no colour images with depth; expected the layout of TUM or 7-Scenes")
    return frames


def _frame(colour: Path, depth: Path, intrinsics: tuple[float, float, float, float], depth_unit: float) -> CameraFrame:
    from plueckernet.data.datasets.frames import CameraFrame
    from plueckernet.extraction import RgbdSettings

    defaults = RgbdSettings()
    return CameraFrame(colour.stem, 0.0, colour, depth, intrinsics, depth_unit, defaults.max_depth, defaults.noise)


def _write(extracted: ExtractedLines, source: Path, out: Path, quality: Path | None, quiet: bool) -> None:
    from plueckernet.errors import InputError
    from plueckernet.io import atomic_write, write_lines

    if len(extracted) == 0:
        raise InputError(f"{source}: no lines found")
    write_lines(out, extracted.lines)
    lengths = extracted.lines.lengths().tolist()
    if quality is not None:
        rows = zip(lengths, extracted.support.tolist(), extracted.residual.tolist(), strict=True)
        with atomic_write(quality) as handle:
            handle.write("length,support,residual\n")
            handle.writelines(f"{length:.6g},{support},{residual:.6g}\n" for length, support, residual in rows)
    if not quiet:
        typer.echo(f"{source}: {len(extracted)} lines written to {out}", err=True)
        span = f"lengths {min(lengths):.3g} to {max(lengths):.3g} m, median {median(lengths):.3g} m"
        residual = f"median residual of the points {median(extracted.residual.tolist()):.2g} m"
        typer.echo(f"  total length {sum(lengths):.4g} m; {span}; {residual}", err=True)


def _positive(name: str, value: float | None) -> float | None:
    from plueckernet.errors import InputError

    if value is not None and not 0 < value < float("inf"):
        raise InputError(f"{name}: expected a positive length, got {value}")
    return value
