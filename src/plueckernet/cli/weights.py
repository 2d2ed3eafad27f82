"""`plueckernet weights`: exports and describes weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from plueckernet.cli.summary import Row

app = typer.Typer(name="weights", help="Export and describe trained weights.", no_args_is_help=True)


@app.command()
def export(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A checkpoint, or the folder of a training for its best one.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the weights and their card.")],
    name: Annotated[str | None, typer.Option(help="Name of the model.", show_default="from the config")] = None,
    results: Annotated[Path | None, typer.Option(metavar="JSON", help="Results to include in the card.")] = None,
    half: Annotated[bool, typer.Option("--half", help="Write 16-bit floats: half the size.")] = False,
) -> None:
    """Export a checkpoint as a safetensors file of at most 10 MB, with a card."""
    from plueckernet.training.export import export_weights

    path = export_weights(checkpoint, out, name=name, results=results, half=half)
    typer.echo(f"{path} written, {path.stat().st_size / 1e6:.1f} MB, and its card {path.with_suffix('.json').name}")


@app.command()
def info(
    model: Annotated[
        str | None, typer.Argument(metavar="[NAME|FILE]", help="A model of the package, or a file.")
    ] = None,
) -> None:
    """Show the card of a model; without an argument, list the models of the package."""
    from rich.console import Console

    from plueckernet.cli.summary import rows_table
    from plueckernet.models.weights import available_pretrained

    rows = _card_rows(model) if model is not None else [row for name in available_pretrained() for row in _line(name)]
    if rows:
        Console().print(rows_table(rows))
    else:
        typer.echo("this package has no weights")


def _line(name: str) -> Iterator[Row]:
    from plueckernet.models.weights import load_card, pretrained_path

    size, parameters, _ = _file_facts(pretrained_path(name))
    yield name, f"{load_card(name).data}; {parameters / 1e6:.2f} M parameters, {size / 1e6:.1f} MB"


def _card_rows(name: str) -> list[Row]:
    from rich.markup import escape

    from plueckernet.models.weights import load_card, pretrained_path

    card, path = load_card(name), pretrained_path(name)
    size, parameters, digest = _file_facts(path)
    rows = [("name", card.name), ("file", str(path)), ("data", card.data), ("protocol", card.protocol)]
    rows += [("version", card.version), ("parameters", f"{parameters:,}"), ("size", f"{size / 1e6:.2f} MB")]
    rows += [("sha256", digest), ("architecture", _indented(card.architecture)), ("numbers", _indented(card.numbers))]
    return [(key, escape(value)) for key, value in rows]


def _file_facts(path: Path) -> tuple[int, int, str]:
    """Size in bytes, number of parameters, SHA-256."""
    import hashlib

    from plueckernet.models.weights import read_tensors

    parameters = sum(tensor.numel() for tensor in read_tensors(path).values())
    return path.stat().st_size, parameters, hashlib.sha256(path.read_bytes()).hexdigest()


def _indented(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
