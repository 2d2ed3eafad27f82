"""`plueckernet prepare`: a published dataset as scenes to train and test on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def prepare(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="structured3d, semantic3d, apollo, authors, tum, 7scenes or kitti."),
    ],
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder with the files as published.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the scenes and their index go.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the division into train and test.")] = 0,
) -> None:
    """Prepare a published dataset: one line map for each scene, divided into train and test, and an index.

    An interrupted run goes on where it was when it is started again.
    """
    from plueckernet import preparation
    from plueckernet.cli.progress import slow_bar

    with slow_bar(f"preparing {name}") as progress:
        index = preparation.prepare(name, source, out, seed=seed, progress=progress)
    counts = {split: len(index.of_split(split)) for split in ("train", "test")}
    lines = sorted(scene.lines for scene in index.scenes)
    typer.echo(
        f"{out}: {counts['train']} scenes to train and {counts['test']} to test, {len(index.pairs)} pairs", err=True
    )
    typer.echo(f"  lines of a scene: {lines[0]} to {lines[-1]}, median {lines[len(lines) // 2]}", err=True)
    for what, why in index.dropped.items():
        typer.echo(f"  left out {what}: {why}", err=True)
