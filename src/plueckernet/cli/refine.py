"""`plueckernet refine`: improve a pose that is roughly known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import plueckernet.cli.options as opt
from plueckernet.cli.starting import quick_imports


def refine(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Line map or point cloud that is moved.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Line map or point cloud that stays.")],
    pose: Annotated[
        Path, typer.Option(metavar="FILE", help="target_T_source: a result of `register`, or a 4x4 matrix as text.")
    ],
    matcher: opt.MatcherOption = "invariant",
    settings: opt.SetOption = None,
    inlier_threshold: opt.InlierThresholdOption = None,
    min_confidence: opt.MinConfidenceOption = 0.9,
    json_file: opt.JsonOption = None,
    aligned: opt.AlignedOption = None,
    report: opt.ReportOption = None,
    plot: opt.PlotOption = None,
    from_format: opt.FromOption = None,
    lod: opt.LodOption = None,
    types: opt.TypesOption = None,
    storey: opt.StoreyOption = None,
    device: opt.DeviceOption = "cpu",
    force: opt.ForceOption = False,
    quiet: opt.QuietOption = False,
) -> None:
    """Improve a pose that is accurate to about the inlier threshold, such as one set by hand in another program.

    Exit code 0: accepted; 1: not accepted or ambiguous; 2: bad input.
    """
    with quick_imports():
        from plueckernet import registration
        from plueckernet.cli.maps import ReadingOptions, read_pair
        from plueckernet.cli.outputs import RegistrationOutputs
        from plueckernet.cli.poses import read_pose
        from plueckernet.cli.progress import slow_bar
        from plueckernet.matchers import load_matcher

    chosen = opt.registration_settings(False, inlier_threshold, min_confidence, settings)
    opt.check_device(device)
    outputs = RegistrationOutputs(json_file, aligned, report, plot)
    outputs.check((source, target, pose), force)
    start, line_matcher = read_pose(pose), load_matcher(matcher, device)
    reports = read_pair((source, target), ReadingOptions(from_format, lod, types, storey, quiet))
    lines = reports[0].lines, reports[1].lines
    with slow_bar(f"refining on {len(lines[0])} and {len(lines[1])} lines"):
        result = registration.refine(*lines, start, matcher=line_matcher, settings=chosen, device=device)
    outputs.show_and_write(result, reports, quiet)
