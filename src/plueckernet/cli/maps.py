"""Reading the two maps of a command; a point cloud becomes its lines first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from plueckernet.io import ReadReport


@dataclass(frozen=True)
class ReadingOptions:
    """What the options of a command say about its files."""

    formats: tuple[str, ...] = ()  # none, that of both files, or that of each
    lod: str | None = None
    types: tuple[str, ...] = ()
    storey: str | None = None
    quiet: bool = False

    def format_of(self, place: int) -> str | None:
        """The format of the first or second file."""
        return self.formats[min(place, len(self.formats) - 1)] if self.formats else None


def read_maps(paths: tuple[Path, Path], options: ReadingOptions) -> tuple[ReadReport, ReadReport]:
    """Read both maps."""
    from plueckernet.errors import FormatError, InputError
    from plueckernet.estimation.maps import MIN_LINES

    if len(options.formats) > 2:
        raise InputError("--from: expected one format, or one for each of the two files")
    levels, elements = _choices(paths, options)
    reports = [
        read_map(path, options, place, levels[place], elements[place]) for place, path in enumerate(paths)
    ]  # fmt: skip
    for report in reports:
        if len(report.lines) < MIN_LINES:
            raise FormatError(report.path, f"it has {len(report.lines)} lines; at least three are needed")
    return reports[0], reports[1]


def read_map(path: Path, options: ReadingOptions, place: int, has_levels: bool, has_elements: bool) -> ReadReport:
    """Read a map; of a point cloud, extract the lines and say so."""
    from plueckernet.cli.progress import slow_bar
    from plueckernet.extraction.clouds.reading import is_cloud
    from plueckernet.io import read_lines_report

    if options.format_of(place) is None and is_cloud(path):
        return _extracted(path, options.quiet)
    with slow_bar(f"reading {path.name}") as progress:
        return read_lines_report(
            path,
            format=options.format_of(place),
            lod=options.lod if has_levels else None,
            types=options.types if has_elements else (),
            storey=options.storey if has_elements else None,
            progress=progress,
        )


def _extracted(path: Path, quiet: bool) -> ReadReport:
    from plueckernet.cli.progress import slow_bar
    from plueckernet.errors import InputError
    from plueckernet.extraction import extract_lines
    from plueckernet.io import ReadReport

    if not quiet:
        hint = f"`plueckernet extract {path} --out lines.npz` keeps them"
        typer.echo(f"{path} is a point cloud: extracting its lines first; {hint}", err=True)
    with slow_bar(f"extracting lines from {path.name}") as progress:
        extracted = extract_lines(path, progress=progress)
    if len(extracted) == 0:
        raise InputError(f"{path}: no lines found in this point cloud")
    return ReadReport(path, "point cloud", extracted.lines, notes=("the lines were extracted from a point cloud",))


def _choices(paths: tuple[Path, Path], options: ReadingOptions) -> tuple[list[bool], list[bool]]:
    """Whether the level of detail, and the choice of elements, goes to each map.

    They go to maps that have them only; without such a map, reading the first raises the error.
    """
    from plueckernet.io.registry import format_named, format_of_content
    from plueckernet.io.source import Source

    if options.lod is None and not options.types and options.storey is None:
        return [False, False], [False, False]
    named = [options.format_of(place) for place in (0, 1)]
    formats = [
        format_named(name) if name is not None else format_of_content(Source(path)) if path.is_file() else None
        for name, path in zip(named, paths, strict=True)
    ]
    levels = [known is not None and known.has_levels for known in formats]
    elements = [known is not None and known.has_elements for known in formats]
    return (
        [chosen or not any(levels) for chosen in levels],
        [chosen or not any(elements) for chosen in elements],
    )
