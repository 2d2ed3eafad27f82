"""`plueckernet locate`: the pose of a part in a large map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import plueckernet.cli.options as opt
from plueckernet.cli.starting import quick_imports

if TYPE_CHECKING:
    from plueckernet.io import ReadReport
    from plueckernet.retrieval import LineIndex


def locate(
    submap: Annotated[Path, typer.Argument(metavar="PART", help="Line map or point cloud of a part of the place.")],
    whole: Annotated[Path, typer.Argument(metavar="WHOLE", help="Large line map or point cloud.")],
    index: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Index of WHOLE: used if the file exists, otherwise built and written to it."
        ),
    ] = None,
    json_file: opt.JsonOption = None,
    aligned: opt.AlignedOption = None,
    report: opt.ReportOption = None,
    plot: opt.PlotOption = None,
    inlier_threshold: opt.InlierThresholdOption = None,
    min_confidence: opt.MinConfidenceOption = 0.9,
    matcher: opt.MatcherOption = "invariant",
    settings: opt.SetOption = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed; equal seeds give equal results.")] = 0,
    device: opt.DeviceOption = "cpu",
    from_format: opt.FromOption = None,
    lod: opt.LodOption = None,
    types: opt.TypesOption = None,
    storey: opt.StoreyOption = None,
    force: opt.ForceOption = False,
    quiet: opt.QuietOption = False,
) -> None:
    """Find the pose of PART, a few hundred lines, in the frame of WHOLE, which may have 100,000.

    Exit code 0: found; 1: not found or ambiguous; 2: bad input.
    """
    with quick_imports():
        from plueckernet import locating
        from plueckernet.cli.maps import ReadingOptions, read_pair
        from plueckernet.cli.outputs import RegistrationOutputs, check_outputs
        from plueckernet.cli.progress import slow_bar
        from plueckernet.matchers import load_matcher
        from plueckernet.stages import STAGES

    chosen = opt.registration_settings(False, inlier_threshold, min_confidence, settings)
    opt.check_device(device)
    outputs = RegistrationOutputs(json_file, aligned, report, plot)
    outputs.check((submap, whole), force)
    check_outputs((index,), (submap, whole), force=False)
    line_matcher = load_matcher(matcher, device)
    reports = read_pair((submap, whole), ReadingOptions(from_format, lod, types, storey, quiet))
    line_index = _index(reports[1], index, quiet)
    with slow_bar(f"locating {len(reports[0].lines)} in {len(line_index)} lines") as progress:
        result = locating.locate(
            reports[0].lines, line_index, matcher=line_matcher, settings=chosen, seed=seed, device=device,
            on_stage=lambda stage: progress(STAGES.index(stage) / len(STAGES), stage),
        )  # fmt: skip
    outputs.show_and_write(result, reports, quiet)


def _index(whole: ReadReport, path: Path | None, quiet: bool) -> LineIndex:
    """The index of a map, from its file if that exists."""
    from plueckernet.cli.progress import slow_bar
    from plueckernet.errors import InputError
    from plueckernet.retrieval import LineIndex

    if path is not None and path.exists():
        index = LineIndex.load(path)
        if not index.covers(whole.lines):
            raise InputError(f"{path}: is the index of another map than {whole.path}; remove it to build a new one")
        return index
    with slow_bar(f"indexing {len(whole.lines)} lines") as progress:
        index = LineIndex.build(whole.lines, progress=progress)
    if path is not None:
        index.save(path)
        if not quiet:
            typer.echo(f"index written to {path}", err=True)
    return index
