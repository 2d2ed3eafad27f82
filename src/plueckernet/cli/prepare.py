"""`plueckernet prepare`: converts a published dataset to scenes for training and testing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plueckernet.cli.workers import RayOption, WorkersOption


def prepare(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="structured3d, semantic3d, apollo, authors-structured3d, authors-semantic3d, authors-apollo, tum, "
            "7scenes or kitti.",
        ),
    ],
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder with the files as published.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the scenes and their index.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split into train and test.")] = 0,
    workers: WorkersOption = None,
    ray: RayOption = None,
) -> None:
    """Prepare a published dataset: one line map per scene, split into train and test, and an index.

    An interrupted run continues when it is started again.
    """
    from plueckernet import preparation
    from plueckernet.cli.progress import slow_bar
    from plueckernet.cli.workers import few_or_chosen

    count = preparation.census(name, source)
    if count:
        typer.echo(f"{source}: {count}", err=True)
    with slow_bar(f"preparing {name}") as progress:
        executor = few_or_chosen(workers, ray)
        index = preparation.prepare(name, source, out, seed=seed, workers=executor, progress=progress)
    counts = {split: len(index.of_split(split)) for split in ("train", "test")}
    lines = sorted(scene.lines for scene in index.scenes)
    typer.echo(
        f"{out}: {counts['train']} training scenes and {counts['test']} test scenes, {len(index.pairs)} pairs", err=True
    )
    typer.echo(f"  lines per scene: {lines[0]} to {lines[-1]}, median {lines[len(lines) // 2]}", err=True)
    for scene, reason in index.dropped.items():
        typer.echo(f"  left out {scene}: {reason}", err=True)
