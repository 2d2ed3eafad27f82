"""`plueckernet align-colmap`: two COLMAP models without a common image, aligned by their lines and merged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import plueckernet.cli.options as opt

if TYPE_CHECKING:
    from plueckernet.merging.reconstructions import LineModel
    from plueckernet.result import RegistrationResult


def align_colmap(
    source: Annotated[Path, typer.Argument(metavar="A", help="COLMAP model that is moved, with LIMAP 2's lines.")],
    target: Annotated[Path, typer.Argument(metavar="B", help="COLMAP model that stays.")],
    out: Annotated[Path, typer.Option(metavar="C", help="New folder for the moved model A and the merged one.")],
    source_lines: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Lines of A, in its frame.", show_default="A/structures")
    ] = None,
    target_lines: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Lines of B, in its frame.", show_default="B/structures")
    ] = None,
    from_format: Annotated[
        list[str] | None,
        typer.Option(
            "--from", metavar="FORMAT", help="Format of the lines; twice: of A, of B.", show_default="by content"
        ),
    ] = None,
    json_file: opt.JsonOption = None,
    report: opt.ReportOption = None,
    inlier_threshold: opt.InlierThresholdOption = None,
    min_confidence: opt.MinConfidenceOption = 0.9,
    scale_range: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="The scale is in this range: 0.9 1.1", show_default="any scale"),
    ] = None,
    upright: opt.UprightOption = False,
    up: opt.UpOption = None,
    matcher: opt.MatcherOption = "invariant",
    settings: opt.SetOption = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed; equal seeds give equal results.")] = 0,
    device: opt.DeviceOption = "cpu",
    force: Annotated[bool, typer.Option("--force", help="Write also with a pose that is not accepted.")] = False,
    quiet: opt.QuietOption = False,
) -> None:
    """Put COLMAP model A into the frame of model B, which need not share an image with it, and merge them.

    The lines of the models determine rotation, translation and scale. C/moved is A in the frame of B, C/merged both
    in one, with cameras, rigs, frames, images, points and lines; numbers of A that B has as well are new.

    Exit code 0: written; 1: not registered or ambiguous, and nothing written; 2: bad input.
    """
    from plueckernet import registration
    from plueckernet.cli.maps import ReadingOptions, read_pair
    from plueckernet.cli.outputs import RegistrationOutputs
    from plueckernet.cli.progress import slow_bar
    from plueckernet.matchers import load_matcher
    from plueckernet.merging.reconstructions import read_model
    from plueckernet.stages import STAGES

    chosen = opt.registration_settings(False, inlier_threshold, min_confidence, settings)
    vertical = opt.vertical(upright, up)
    opt.check_device(device)
    outputs = RegistrationOutputs(json_file, None, report)
    outputs.check((source, target), False)
    _check(source, target, out)
    line_matcher = load_matcher(matcher, device)
    files = source_lines or source, target_lines or target
    reports = read_pair(files, ReadingOptions(from_format, quiet=quiet))
    models = read_model(source, reports[0]), read_model(target, reports[1])
    with slow_bar(f"registering {len(reports[0].lines)} to {len(reports[1].lines)} lines") as progress:
        result = registration.register(
            reports[0].lines, reports[1].lines, matcher=line_matcher, settings=chosen, seed=seed, device=device,
            scale=scale_range or "unknown", up=vertical,
            on_stage=lambda stage: progress(STAGES.index(stage) / len(STAGES), stage),
        )  # fmt: skip
    outputs.present(result, reports, quiet)
    _write(out, models, result, force, quiet)


def _write(
    out: Path, models: tuple[LineModel, LineModel], result: RegistrationResult, force: bool, quiet: bool
) -> None:
    """Write the models and say so, or end with exit code 1."""
    from plueckernet.merging.reconstructions import write_models

    pose = result.target_T_source
    if pose is None or not (result or force):
        typer.echo(f"{out} not written: {result.reason}", err=True)
        raise typer.Exit(1)
    notes = write_models(out, *models, pose)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if not quiet:
        said = "" if result else f", though the pose is not accepted: {result.reason}"
        typer.echo(f"moved and merged models written to {out}{said}", err=True)


def _check(source: Path, target: Path, out: Path) -> None:
    """Raise before the work starts if there is no package to read models with, or no place to write to."""
    from plueckernet.errors import InputError
    from plueckernet.interop.colmap import load_pycolmap

    load_pycolmap()
    if out.resolve() in (source.resolve(), target.resolve()):
        raise InputError(f"{out}: is an input; choose a new folder")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists and is not an empty folder; choose a new one")
