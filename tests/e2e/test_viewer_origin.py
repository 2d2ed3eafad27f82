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

from plueckernet.viewer import Viewer

TRY = """async (address) => {
  const seen = {};
  const read = (url, options) => fetch(url, options).then(answer => answer.type + answer.status, () => "refused");
  const events = (url) => new Promise((done) => {
    const tried = new EventSource(url);
    tried.onmessage = () => { tried.close(); done("message"); };
    tried.onerror = () => { tried.close(); done("refused"); };
  });
  for (const url of [address, address + "state", address + "register", new URL("/", address).href]) {
    seen["get " + url] = await read(url, { mode: "cors" });
    seen["blind " + url] = await read(url, { mode: "no-cors" });
    seen["post " + url] = await read(url, { mode: "cors", method: "POST", body: "{}" });
    seen["blind post " + url] = await read(url, { mode: "no-cors", method: "POST", body: "{}" });
  }
  seen.events = await events(address + "events");
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
            seen = watched.page.evaluate(TRY, viewer.url)
            assert set(seen.values()) == {"refused"}, seen
            frame = watched.page.frames[-1]
            assert frame.url.startswith("chrome-error:") or frame.locator("canvas").count() == 0
            assert viewer.session.result is None
            watched.page.goto(viewer.url)  # the same attempts from the own page succeed
            own = watched.page.evaluate(TRY, viewer.url)
            assert own["events"] == "message"
            assert own[f"get {viewer.url}state"] == "basic200"
            assert own[f"post {viewer.url}register"] == "basic409"  # one map is missing
            watched.context.close()
    finally:
        viewer.stop()
