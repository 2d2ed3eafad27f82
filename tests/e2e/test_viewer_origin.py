"""A page of another origin cannot reach the viewer, even if it knows the token."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.cli.helpers import MONDAY
from tests.e2e.browser import Watched, chromium

pytest.importorskip("viser", reason="viser is not installed")

import viser

from plueckernet.viewer import Viewer

TRY = """async ([address, protocol]) => {
  const seen = {};
  const socket = (url) => new Promise((done) => {
    const tried = new WebSocket(url.replace("http", "ws"), [protocol]);
    tried.onmessage = () => done("message");
    tried.onopen = () => setTimeout(() => done("open"), 3000);
    tried.onerror = () => done("refused");
  });
  const read = (url, mode) => fetch(url, { mode }).then(answer => answer.type + answer.status, () => "refused");
  for (const url of [address, address.slice(0, -1), new URL("/", address).href]) {
    seen["socket " + url] = await socket(url);
    seen["fetch " + url] = await read(url, "cors");
    seen["no-cors " + url] = await read(url, "no-cors");
  }
  const frame = document.createElement("iframe");
  frame.src = address;
  document.body.append(frame);
  await new Promise((done) => { frame.onload = done; setTimeout(done, 3000); });
  try { seen.frame = frame.contentWindow.location.href; } catch { seen.frame = "refused"; }
  return seen;
}"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[str]:
    """The address of a page of another origin on the same machine."""
    (tmp_path / "index.html").write_text("<!doctype html><title>elsewhere</title><body></body>")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_a_page_of_another_origin_cannot_reach_the_viewer(foreign: str) -> None:
    viewer = Viewer(port=18380)
    try:
        viewer.load("source", MONDAY)
        with chromium() as browser:
            watched = Watched(browser)
            watched.page.goto(foreign)
            protocol = f"viser-v{viser.__version__}"
            seen = watched.page.evaluate(TRY, [viewer.url, protocol])
            assert set(seen.values()) == {"refused"}, seen
            frame = watched.page.frames[-1]
            assert frame.url.startswith("chrome-error:") or frame.locator("canvas").count() == 0
            watched.page.goto(viewer.url)  # the same attempts from the own page succeed
            own = watched.page.evaluate(TRY, [viewer.url, protocol])
            assert own[f"socket {viewer.url[:-1]}"] == "message"
            assert own[f"fetch {viewer.url}"] == "basic200"
    finally:
        viewer.stop()
