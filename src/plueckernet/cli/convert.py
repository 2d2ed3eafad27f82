"""`plueckernet convert`: a line map from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plueckernet.cli.options import ForceOption, LodOption, StoreyOption, TypesOption
from plueckernet.cli.starting import quick_imports


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="File, folder of LIMAP tracks, or COLMAP model.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File to write.")],
    lod: LodOption = None,
    types: TypesOption = None,
    storey: StoreyOption = None,
    from_format: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Format of IN.", show_default="by content")
    ] = None,
    to_format: Annotated[
        str | None, typer.Option("--to", metavar="FORMAT", help="Format of OUT.", show_default="by suffix")
    ] = None,
    max_lines: Annotated[
        int, typer.Option(min=1, help="Most lines of repeated blocks, templates and compressed arrays.")
    ] = 2_000_000,
    clip: Annotated[
        float | None,
        typer.Option(metavar="RADIUS", help="Clip infinite lines to segments in a ball about the centre."),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Convert a line map to another format, without loss where the format allows it.

    Formats: npy, npz, ply, dxf, obj, limap2, limap, line3dpp, csv, txt; cityjson, gml, ifc and mesh can only be read.
    """
    with quick_imports():
        from plueckernet.cli.outputs import check_outputs
        from plueckernet.cli.progress import slow_bar
        from plueckernet.io import clip_to_ball, read_lines_report, write_lines
        from plueckernet.io.writing import writable_format

    if writable_format(target, to_format).name != "limap2":  # which is a folder
        check_outputs([target], [source], force)
    with slow_bar(f"reading {source.name}") as progress:
        report = read_lines_report(
            source,
            format=from_format,
            lod=lod,
            types=types or (),
            storey=storey,
            progress=progress,
            max_lines=max_lines,
        )
    lines = report.lines
    if clip is not None and lines.endpoints is None:
        lines = clip_to_ball(lines, clip)
    with slow_bar(f"writing {target.name}"):
        write_lines(target, lines, format=to_format)
    typer.echo(f"{source} ({report.format}): {len(lines)} lines written to {target}", err=True)
    outside = len(report.lines) - len(lines)
    dropped = report.dropped | ({"outside the ball": outside} if outside else {})
    for remark in (*(f"left out {count}: {reason}" for reason, count in dropped.items()), *report.notes):
        typer.echo(f"  {remark}", err=True)
