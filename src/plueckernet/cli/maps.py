"""Reading the maps of a command; a point cloud becomes its lines first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from plueckernet.io import ReadReport
    from plueckernet.io.registry import Format


@dataclass(frozen=True)
class ReadingOptions:
    """What the options of a command say about its files."""

    formats: Sequence[str] | None = None  # that of all files, or that of each
    lod: str | None = None
    types: Sequence[str] | None = None
    storey: str | None = None
    quiet: bool = False

    def format_of(self, place: int) -> str | None:
        """The format of a file, by its place among those of the command."""
        return self.formats[min(place, len(self.formats) - 1)] if self.formats else None


def read_pair(paths: tuple[Path, Path], options: ReadingOptions) -> tuple[ReadReport, ReadReport]:
    """Read the two maps of a registration; maps of too few lines raise :class:`FormatError`."""
    from plueckernet.errors import FormatError
    from plueckernet.estimation.maps import MIN_LINES

    source, target = read_maps(paths, options)
    for report in (source, target):
        if len(report.lines) < MIN_LINES:
            raise FormatError(report.path, f"it has {len(report.lines)} lines; at least three are needed")
    return source, target


def read_maps(paths: Sequence[Path], options: ReadingOptions) -> list[ReadReport]:
    """Read all maps; of a point cloud, extract the lines and say so.

    The level of detail and the choice of elements go only to maps that have them. Without such a map they go to all,
    and reading the first raises the error.
    """
    from plueckernet.errors import InputError

    if len(options.formats or ()) > max(1, len(paths)):
        raise InputError("--from: expected one format, or one for each of the files")
    formats = [_chosen_format(path, options, place) for place, path in enumerate(paths)]
    levels = [known is not None and known.has_levels for known in formats]
    elements = [known is not None and known.has_elements for known in formats]
    return [
        _read(path, options, place, levels[place] or not any(levels), elements[place] or not any(elements))
        for place, path in enumerate(paths)
    ]


def _chosen_format(path: Path, options: ReadingOptions, place: int) -> Format | None:
    """The format of a file of lines, where it matters for an option."""
    from plueckernet.extraction.clouds.reading import is_cloud
    from plueckernet.io.registry import format_named, format_of_content
    from plueckernet.io.source import Source

    name = options.format_of(place)
    matters = options.lod is not None or options.types or options.storey is not None
    if not matters or not path.is_file() or is_cloud(path, name):
        return None
    return format_of_content(Source(path)) if name is None else format_named(name)


def _read(path: Path, options: ReadingOptions, place: int, with_lod: bool, with_elements: bool) -> ReadReport:
    from plueckernet.cli.progress import slow_bar
    from plueckernet.extraction.clouds.reading import is_cloud
    from plueckernet.io import read_lines_report

    format = options.format_of(place)
    if is_cloud(path, format):
        return _extracted(path, format, options.quiet)
    with slow_bar(f"reading {path.name}") as progress:
        return read_lines_report(
            path,
            format=format,
            lod=options.lod if with_lod else None,
            types=options.types or () if with_elements else (),
            storey=options.storey if with_elements else None,
            progress=progress,
        )


def _extracted(path: Path, format: str | None, quiet: bool) -> ReadReport:
    from plueckernet.cli.progress import slow_bar
    from plueckernet.errors import InputError
    from plueckernet.extraction import extract_lines
    from plueckernet.io import ReadReport

    if not quiet:
        hint = f"`plueckernet extract {path} --out lines.npz` keeps them"
        typer.echo(f"{path} is a point cloud: extracting its lines first; {hint}", err=True)
    with slow_bar(f"extracting lines from {path.name}") as progress:
        extracted = extract_lines(path, progress=progress, format=format)
    if len(extracted) == 0:
        raise InputError(f"{path}: no lines found in this point cloud")
    return ReadReport(path, "point cloud", extracted.lines, notes=("the lines were extracted from a point cloud",))
