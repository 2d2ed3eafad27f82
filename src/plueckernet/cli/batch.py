"""`plueckernet batch`: many pairs of maps, on many cores or machines."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import plueckernet.cli.options as opt
from plueckernet.cli.workers import RayOption

if TYPE_CHECKING:
    from plueckernet.batch import BatchSummary

_SHOWN = 5  # errors that are printed
_GPU_BATCH = 16  # pairs that a worker with a GPU gets at a time
FormatsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="FORMAT",
        help="Format of all files; twice: of sources, of targets.",
        show_default="by content",
    ),
]


def batch(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="CSV file with the columns source, target, name.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the results.")],
    workers: Annotated[
        int | None, typer.Option(min=1, help="Workers, of one thread each.", show_default="one per core or GPU")
    ] = None,
    ray: RayOption = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Pairs that a worker gets at a time.", show_default=f"1; {_GPU_BATCH} on a GPU"),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Compute pairs that ended in an error again.")] = False,
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
    from_format: FormatsOption = None,
    quiet: opt.QuietOption = False,
) -> None:
    """Register all PAIRS and write a row for each to Parquet files in FOLDER/results.

    An interrupted run continues when it is started again. A pair that cannot be computed gets the status "error" and
    stops nothing.

    Exit code 0: all pairs were computed, registered or not; 1: some could not be; 2: bad input.
    """
    from plueckernet.batch import BatchOptions, PairRegistration, read_pairs, run_batch
    from plueckernet.batch.rows import load_pyarrow
    from plueckernet.cli.maps import ReadingOptions
    from plueckernet.cli.progress import slow_bar
    from plueckernet.cli.workers import chosen_executor

    load_pyarrow()
    chosen = opt.registration_settings(directed, inlier_threshold, min_confidence, settings)
    chosen = replace(chosen, up=opt.vertical(upright, up) or chosen.up)
    if ray is None:
        opt.check_device(device)
    executor = chosen_executor(workers, ray, device)
    formats = ReadingOptions(from_format)
    listed = read_pairs(pairs, (formats.format_of(0), formats.format_of(1)))
    with slow_bar(f"registering {len(listed)} pairs") as progress:
        options = BatchOptions(
            batch_size or (_GPU_BATCH if device.startswith("cuda") else 1),
            retry,
            lambda complete, total: progress(complete / total),
            lambda: typer.echo("waiting for workers of an earlier run to complete their pairs", err=True),
        )
        scale = opt.scale_choice(similarity, scale_range)
        registration = PairRegistration(matcher, chosen, seed, device, scale)
        summary = run_batch(listed, out, registration, executor, options)
    if not quiet:
        _show(out, summary)
    if summary.errors:
        raise typer.Exit(1)


def _show(out: Path, summary: BatchSummary) -> None:
    from plueckernet.batch import read_batch

    counts = ", ".join(f"{count} {status}" for status, count in sorted(summary.statuses.items()))
    typer.echo(f"{out / 'results'}: {summary.pairs} pairs: {counts}; {summary.computed} computed in this run", err=True)
    errors = (row for row in read_batch(out) if row.document is None)
    for row in islice(errors, _SHOWN if summary.errors else 0):
        typer.echo(f"  pair {row.number}: {row.reason}", err=True)
    if summary.errors > _SHOWN:
        typer.echo(f"  and {summary.errors - _SHOWN} other errors", err=True)
