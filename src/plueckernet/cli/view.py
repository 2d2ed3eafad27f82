"""`plueckernet view`: two line maps in the browser."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

_LOCAL = ("127.0.0.1", "localhost", "::1")


def view(
    source: Annotated[Path | None, typer.Argument(metavar="[SOURCE]", help="Line map that is moved.")] = None,
    target: Annotated[Path | None, typer.Argument(metavar="[TARGET]", help="Line map that stays.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; by default this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port; the next free one if it is taken.")] = 8080,
) -> None:
    """Open two line maps in the browser: register them, look, doubt, nudge, refine, export."""
    from plueckernet.viewer import Viewer

    viewer = Viewer(host, port)
    try:
        for side, path in (("source", source), ("target", target)):
            if path is not None:
                viewer.load("source" if side == "source" else "target", path)
        for line in directions(host, viewer.port):
            typer.echo(line)
        viewer.server.sleep_forever()
    except KeyboardInterrupt:
        typer.echo("closed")
    finally:
        viewer.stop()


def directions(host: str, port: int) -> list[str]:
    """How to get to the page."""
    lines = [f"the viewer is at http://{'127.0.0.1' if host in _LOCAL else host}:{port} (Ctrl-C ends it)"]
    if host in _LOCAL:
        lines += [
            "from another machine, first: "
            f"ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}, then open http://127.0.0.1:{port} there"
        ]
    else:
        lines.append("anyone who can reach this address can use it; there is no password")
    return lines
