"""`plueckernet view`: two line maps in the browser."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from plueckernet.cli.options import FromOption, LodOption, MatcherOption, SetOption, StoreyOption, TypesOption

_LOCAL = ("127.0.0.1", "localhost", "::1")


def view(
    source: Annotated[Path | None, typer.Argument(metavar="[SOURCE]", help="Line map that is moved.")] = None,
    target: Annotated[Path | None, typer.Argument(metavar="[TARGET]", help="Line map that stays.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; the default is this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port; if it is taken, the next free one.")] = 8080,
    open_page: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the page in the browser; by default where there is a screen."),
    ] = None,
    matcher: MatcherOption = "invariant",
    settings: SetOption = None,
    from_format: FromOption = None,
    lod: LodOption = None,
    types: TypesOption = None,
    storey: StoreyOption = None,
) -> None:
    """Open two line maps in the browser to register, inspect, correct, refine and export them.

    Of a point cloud the lines are extracted first.
    """
    from plueckernet.cli.maps import ReadingOptions, read_maps
    from plueckernet.estimation.settings import RegistrationSettings
    from plueckernet.matchers import load_matcher
    from plueckernet.settings import with_values
    from plueckernet.viewer import Viewer

    chosen = with_values(RegistrationSettings(), settings or ())
    line_matcher = load_matcher(matcher)
    named = [path for path in (source, target) if path is not None]
    reports = read_maps(named, ReadingOptions(from_format, lod, types, storey))
    viewer = Viewer(host, port)
    viewer.session.use(line_matcher, chosen)
    viewer.show(reports)
    try:
        for line in access_hints(host, viewer.port, viewer.url):
            typer.echo(line)
        if opens_by_itself(host, sys.platform, os.environ) if open_page is None else open_page:
            open_in_browser(viewer.url)
        viewer.wait()
    except KeyboardInterrupt:
        typer.echo("closed")
    finally:
        viewer.stop()


def opens_by_itself(host: str, platform: str, environment: Mapping[str, str]) -> bool:
    """Whether a browser on this machine would be seen by the user: not over SSH, and on Linux only with a screen."""
    if host not in _LOCAL or "SSH_CONNECTION" in environment:
        return False
    return not platform.startswith("linux") or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def open_in_browser(url: str) -> None:
    """Open an address in the default browser, whose messages are not ours."""
    import webbrowser

    webbrowser.open(url)


def access_hints(host: str, port: int, url: str) -> list[str]:
    """How to open the page."""
    lines = [f"the viewer is at {url} (Ctrl-C stops it)"]
    if host in _LOCAL:
        lines.append(
            f"from another machine, run ssh -L {port}:127.0.0.1:{port} {socket.gethostname()} and open it there"
        )
    else:
        lines.append("whoever can reach this machine and knows this address can use the viewer; it is not encrypted")
    return lines
