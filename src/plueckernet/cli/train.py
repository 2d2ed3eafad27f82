"""`plueckernet train`: trains a network on scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="A .toml file, or the name of a config of the package.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for checkpoints and logs.", show_default="runs/NAME")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the training in that folder.")] = False,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, ...")] = "cpu",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: train.steps=100")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="Stop with a checkpoint after this time.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Train a network; writes FOLDER/last to resume from and FOLDER/best to export.

    Exit code 0: finished or time limit reached; 130: interrupted, with a checkpoint; 2: bad input.
    """
    from plueckernet import training
    from plueckernet.cli.options import check_device

    check_device(device)
    loaded = training.load_config(config, settings or ())
    folder = out if out is not None else Path("runs") / loaded.name
    outcome = training.train(loaded, folder, device=device, resume=resume, minutes=time_limit, quiet=quiet)
    if outcome.ending == "interrupted":
        raise typer.Exit(130)
