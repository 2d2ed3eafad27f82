"""The command line, one module per command.

A command is a plain function with typer's annotations, listed in `COMMANDS`. It imports what it needs beyond the
standard library when it is called, so that `plueckernet --help` is fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

from plueckernet.cli.align import align
from plueckernet.cli.align_colmap import align_colmap
from plueckernet.cli.apply import apply
from plueckernet.cli.batch import batch
from plueckernet.cli.convert import convert
from plueckernet.cli.demo import demo
from plueckernet.cli.evaluate import app as evaluate
from plueckernet.cli.extract import extract
from plueckernet.cli.info import info
from plueckernet.cli.locate import locate
from plueckernet.cli.odometry import odometry
from plueckernet.cli.prepare import prepare
from plueckernet.cli.refine import refine
from plueckernet.cli.register import register
from plueckernet.cli.report import TYPED
from plueckernet.cli.reproduce import reproduce
from plueckernet.cli.train import train
from plueckernet.cli.view import view
from plueckernet.cli.weights import app as weights
from plueckernet.errors import PlueckernetError, printable
from plueckernet.version import __version__

COMMANDS = (
    register, refine, locate, align, align_colmap, batch, apply, view, demo, convert, info, extract, prepare, odometry,
    train, reproduce,
)  # fmt: skip


def _print_version(wanted: bool) -> bool:
    if wanted:
        from plueckernet.kernels.library import kind

        typer.echo(f"plueckernet {__version__}, kernels: {kind()}")
        raise typer.Exit
    return wanted


def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Declare the options that come before a command."""


def make_app(wanted: str = "") -> typer.Typer:
    """The command line with all commands, or with the wanted one alone: typer takes long to inspect them all."""
    made = typer.Typer(
        name="plueckernet",
        help="Register 3D line maps without an initial guess.",
        no_args_is_help=True,
        add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    made.callback()(_options)
    named = [command for command in COMMANDS if command.__name__.replace("_", "-") == wanted]
    for command in named or COMMANDS:
        made.command()(command)
    if not named:
        made.add_typer(evaluate)
        made.add_typer(weights)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a `PlueckernetError` gives one line on stderr and exit code 2."""
    typed = sys.argv[1:] if arguments is None else arguments
    TYPED.set(typed)
    if isinstance(sys.stdout, TextIOWrapper):  # names of files may have bytes that cannot be printed
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        make_app(typed[0] if typed else "")(args=arguments)
    except PlueckernetError as error:
        typer.echo(f"error: {printable(str(error))}", err=True)
        sys.exit(2)
    except OSError as error:  # a full or read-only disk
        place = f"{printable(str(error.filename))}: " if error.filename is not None else ""
        typer.echo(f"error: {place}{error.strerror or error}", err=True)
        sys.exit(2)
