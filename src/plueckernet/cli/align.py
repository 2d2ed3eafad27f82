"""`plueckernet align`: many maps in one frame for each place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import plueckernet.cli.options as opt
from plueckernet.cli.workers import RayOption, WorkersOption

if TYPE_CHECKING:
    from plueckernet.cli.maps import ReadingOptions
    from plueckernet.geometry import LineSet
    from plueckernet.merging import Alignment, AlignSettings
    from plueckernet.merging.control import ControlPoint, WorldTie

_SHOWN = 5  # warnings that are printed


def align(
    maps: Annotated[list[Path], typer.Argument(metavar="MAPS...", help="Line maps or point clouds, in any order.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for align.json, merged maps, graphs and the report.")
    ],
    control: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Control points (CSV): name, map x y z, world x y z; column `map` for several."
        ),
    ] = None,
    from_format: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Format of all files.", show_default="by content")
    ] = None,
    lod: opt.LodOption = None,
    types: opt.TypesOption = None,
    storey: opt.StoreyOption = None,
    similarity: Annotated[bool, typer.Option("--similarity", help="The maps have different, unknown units.")] = False,
    min_confidence: opt.MinConfidenceOption = 0.9,
    gtsam: Annotated[bool, typer.Option("--gtsam", help="Also write the graphs as GTSAM reads them.")] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")] = True,
    workers: WorkersOption = None,
    ray: RayOption = None,
    matcher: opt.MatcherOption = "invariant",
    settings: opt.SetOption = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed; equal seeds give equal results.")] = 0,
    quiet: opt.QuietOption = False,
) -> None:
    """Find which maps show the same place, and put those into one frame.

    Maps that share nothing stay in different groups. Registrations that others contradict are rejected. The results of
    pairs are kept in DIR, so that an interrupted command goes on. Control points tie groups, or one map, to the world.

    Exit code 0: all maps are in one group; 1: they are not; 2: bad input.
    """
    from plueckernet import merging
    from plueckernet.cli.maps import ReadingOptions
    from plueckernet.cli.progress import slow_bar, unit_warnings_on_stderr
    from plueckernet.cli.workers import few_or_chosen
    from plueckernet.merging.control import read_control_points
    from plueckernet.merging.output import with_full_names
    from plueckernet.registration import register_many

    chosen = _settings(min_confidence, similarity, settings)
    points = [] if control is None else read_control_points(control)
    if gtsam:
        _check_gtsam()
    executor = few_or_chosen(workers, ray)
    points = with_full_names(points, [str(path) for path in maps])
    lines = _read(maps, ReadingOptions(None if from_format is None else [from_format], lod, types, storey, quiet))
    with slow_bar(f"aligning {len(lines)} maps") as progress, unit_warnings_on_stderr(quiet=True):
        alignment = merging.align(
            lines, folder=out, matcher=matcher, settings=chosen, seed=seed,
            register_pairs=partial(
                register_many, processes=executor, matcher=matcher, settings=chosen.registration, seed=seed,
                scale=chosen.scale,
            ),
            on_pair=lambda done, total: progress(done / total, f"pair {done} of {total}"),
        )  # fmt: skip
    ties = _write(out, alignment, points, gtsam, report)
    if not quiet:
        _tell(alignment, ties, out)
    if not alignment.ok:
        raise typer.Exit(1)


def _write(
    out: Path, alignment: Alignment, points: Sequence[ControlPoint], gtsam: bool, report: bool
) -> dict[int, WorldTie]:
    """Write all files; returns the ties of the groups to the world."""
    from plueckernet.merging.output import georeference, write_alignment

    ties: dict[int, WorldTie] = {}
    try:
        ties = georeference(alignment, points)
    finally:  # the alignment is not lost where control points are wrong
        merged = write_alignment(out, alignment, ties, gtsam)
    if report:
        from plueckernet.report.alignment_page import write_alignment_report

        write_alignment_report(out / "report.html", alignment, merged, ties)
    return ties


def _tell(alignment: Alignment, ties: Mapping[int, WorldTie], out: Path) -> None:
    for line in _summary(alignment, ties):
        typer.echo(line)
    for line in _warnings(alignment):
        typer.echo(f"warning: {line}", err=True)
    typer.echo(f"written to {out}", err=True)


def _settings(min_confidence: float, similarity: bool, assignments: list[str] | None) -> AlignSettings:
    from plueckernet.errors import InputError
    from plueckernet.merging import AlignSettings
    from plueckernet.settings import with_values

    if not 0 < min_confidence < 1:
        raise InputError(f"--min-confidence: expected a number between 0 and 1, got {min_confidence}")
    chosen = with_values(AlignSettings(min_confidence=min_confidence), assignments or ())
    return replace(chosen, scale="unknown") if similarity else chosen


def _check_gtsam() -> None:
    from plueckernet.errors import MissingDependencyError

    try:
        import gtsam  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("gtsam", "merge") from error


def _read(paths: list[Path], options: ReadingOptions) -> dict[str, LineSet]:
    from plueckernet.cli.maps import read_maps
    from plueckernet.errors import InputError

    twice = next((path for place, path in enumerate(paths) if path in paths[:place]), None)
    if twice is not None:
        raise InputError(f"{twice}: is given twice")
    return {str(report.path): report.lines for report in read_maps(paths, options)}


def _warnings(alignment: Alignment) -> Iterator[str]:
    """What registrations noticed about maps; of the pairs that share a sentence, the first."""
    first: dict[str, str] = {}
    for edge in alignment.edges:
        for sentence in edge.warnings:
            first.setdefault(sentence, f"{edge.source} to {edge.target}: {sentence}")
    yield from list(first.values())[:_SHOWN]
    if len(first) > _SHOWN:
        yield f"{len(first) - _SHOWN} others are in align.json"


def _summary(alignment: Alignment, ties: Mapping[int, WorldTie]) -> Iterator[str]:
    accepted = sum(edge.accepted for edge in alignment.edges)
    rejected = [edge for edge in alignment.edges if not edge.accepted and edge.status == "success"]
    maps, groups, pairs = (_count(values, name) for values, name in (
        (alignment.maps, "map"), (alignment.groups, "group"), (alignment.edges, "pair"),
    ))  # fmt: skip
    yield f"{maps} in {groups}; {pairs} registered: {accepted} accepted, {len(rejected)} confident but rejected"
    if alignment.missing:
        yield f"not tried: {_count(alignment.missing, 'probable overlap')}"
    for number, group in enumerate(alignment.groups):
        yield f"group {number + 1}: {', '.join(group.maps)}"
        if group.cycles:
            worst = group.cycles[0]
            yield f"  worst cycle of {len(group.cycles)}: {worst.angle:.3f}° and {worst.distance:.3f}"
        if number in ties:
            yield f"  world: {ties[number].rms:.4f} RMS of {len(ties[number].residuals)} control points"
            for point in sorted(ties[number].residuals, key=lambda point: -point.distance):
                yield f"    {point.name}: {point.distance:.4f}"


def _count(values: Sized, name: str) -> str:
    return f"{len(values)} {name}{'' if len(values) == 1 else 's'}"
