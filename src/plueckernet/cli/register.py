"""`plueckernet register`: the pose between two line maps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import plueckernet.cli.options as opt
from plueckernet.cli.starting import quick_imports


def register(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Line map or point cloud that is moved.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Line map or point cloud that stays.")],
    json_file: opt.JsonOption = None,
    aligned: opt.AlignedOption = None,
    report: opt.ReportOption = None,
    plot: opt.PlotOption = None,
    inlier_threshold: opt.InlierThresholdOption = None,
    min_confidence: opt.MinConfidenceOption = 0.9,
    directed: Annotated[bool, typer.Option("--directed", help="The direction of each line is meaningful.")] = False,
    similarity: opt.SimilarityOption = False,
    scale_range: opt.ScaleRangeOption = None,
    upright: opt.UprightOption = False,
    up: opt.UpOption = None,
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
    """Find the pose of SOURCE in the frame of TARGET: any rotation, any translation, no initial guess.

    With --similarity any scale, too; with --upright only turns about the vertical.

    Of a point cloud (LAS, LAZ, E57, PCD, PLY, …) the lines are extracted first.

    Exit code 0: registered; 1: not registered or ambiguous; 2: bad input.
    """
    with quick_imports():
        from plueckernet import registration
        from plueckernet.cli.maps import ReadingOptions, read_pair
        from plueckernet.cli.outputs import RegistrationOutputs
        from plueckernet.cli.progress import slow_bar, unit_warnings_on_stderr
        from plueckernet.cli.workers import fitting_threads
        from plueckernet.matchers import load_matcher
        from plueckernet.stages import STAGES

    chosen = opt.registration_settings(directed, inlier_threshold, min_confidence, settings)
    scale, vertical = opt.scale_choice(similarity, scale_range), opt.vertical(upright, up)
    opt.check_device(device)
    outputs = RegistrationOutputs(json_file, aligned, report, plot)
    outputs.check((source, target), force)
    line_matcher = load_matcher(matcher, device)
    reports = read_pair((source, target), ReadingOptions(from_format, lod, types, storey, quiet))
    lines = reports[0].lines, reports[1].lines
    bar = slow_bar(f"registering {len(lines[0])} to {len(lines[1])} lines")
    with bar as progress, unit_warnings_on_stderr(quiet), fitting_threads(*lines):
        result = registration.register(
            *lines, matcher=line_matcher, settings=chosen, seed=seed, device=device, scale=scale, up=vertical,
            on_stage=lambda stage: progress(STAGES.index(stage) / len(STAGES), stage),
        )  # fmt: skip
    outputs.show_and_write(result, reports, quiet)
