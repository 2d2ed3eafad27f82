"""`plueckernet weights`: networks as files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from plueckernet.cli.summary import Row

app = typer.Typer(name="weights", help="Export trained weights, and look at them.", no_args_is_help=True)


@app.command()
def export(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A checkpoint, or the folder of a training: its best.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the weights and their card go.")],
    name: Annotated[str | None, typer.Option(help="What the model is called.", show_default="as its config")] = None,
    results: Annotated[Path | None, typer.Option(metavar="JSON", help="Numbers to put on the card.")] = None,
    half: Annotated[bool, typer.Option("--half", help="In 16 bits: half the size.")] = False,
) -> None:
    """Make a safetensors file and a card of a checkpoint, at most 10 MB."""
    from plueckernet.training.export import export_weights

    path = export_weights(checkpoint, out, name=name, results=results, half=half)
    typer.echo(f"{path} written, {path.stat().st_size / 1e6:.1f} MB, and its card {path.with_suffix('.json').name}")


@app.command()
def info(
    model: Annotated[
        str | None, typer.Argument(metavar="[NAME|FILE]", help="A model that comes with the package, or a file.")
    ] = None,
) -> None:
    """Show the card of a model; without one, list those that come with the package."""
    from rich.console import Console

    from plueckernet.cli.summary import rows_table
    from plueckernet.models.weights import available_pretrained

    rows = _card_rows(model) if model is not None else [row for name in available_pretrained() for row in _line(name)]
    if rows:
        Console().print(rows_table(rows))
    else:
        typer.echo("no weights come with this package")


def _line(name: str) -> Iterator[Row]:
    from plueckernet.models.weights import load_card, pretrained_path

    size, parameters, _ = _measured(pretrained_path(name))
    yield name, f"{load_card(name).data}; {parameters / 1e6:.2f} M parameters, {size / 1e6:.1f} MB"


def _card_rows(name: str) -> list[Row]:
    from rich.markup import escape

    from plueckernet.models.weights import load_card, pretrained_path

    card, path = load_card(name), pretrained_path(name)
    size, parameters, digest = _measured(path)
    rows = [("name", card.name), ("file", str(path)), ("data", card.data), ("protocol", card.protocol)]
    rows += [("version", card.version), ("parameters", f"{parameters:,}"), ("size", f"{size / 1e6:.2f} MB")]
    rows += [("sha256", digest), ("architecture", _indented(card.architecture)), ("numbers", _indented(card.numbers))]
    return [(key, escape(value)) for key, value in rows]


def _measured(path: Path) -> tuple[int, int, str]:
    """Bytes, parameters, SHA-256."""
    import hashlib

    from safetensors.torch import load_file

    parameters = sum(tensor.numel() for tensor in load_file(path).values())
    return path.stat().st_size, parameters, hashlib.sha256(path.read_bytes()).hexdigest()


def _indented(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
