"""The viewer: a session, its page, and the actions of the page."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from html import escape
from pathlib import Path
from threading import Condition, Lock
from typing import Any

import numpy as np

from plueckernet.errors import InputError, PlueckernetError
from plueckernet.io import ReadReport, write_lines
from plueckernet.report.frame import MAX_DRAWN_LINES, Motion
from plueckernet.report.page import FOOTER, asset, filled, stage_script
from plueckernet.stages import STAGES
from plueckernet.version import __version__
from plueckernet.viewer.gate import Gate
from plueckernet.viewer.server import Answer, Request, Routes, ViewerServer, page_nonce
from plueckernet.viewer.session import SIDES, Session, Side
from plueckernet.viewer.uploads import Uploads

_HEARTBEAT = 15.0  # seconds; a page that is gone is noticed when something is sent to it
_KINDS = {"result.json": "application/json", "aligned.obj": "model/obj", "report.html": "text/html; charset=utf-8"}


class Viewer:
    """Serves a page on which two maps can be registered, until :meth:`stop` is called."""

    def __init__(self, host: str = "127.0.0.1", port: int = 8080) -> None:
        self.session = Session()
        self._gate = Gate(host)
        self._folder = tempfile.TemporaryDirectory(prefix="plueckernet-")
        self._uploads = Uploads(Path(self._folder.name))
        self._busy = Lock()
        self._news = Condition()  # guards what follows
        self._version = 0  # counts changes of the session
        self._registrations = 0
        self._stage: str | None = None  # of the registration that is running
        self._closed = False
        actions = {
            ("GET", "/"): self._page,
            ("GET", "/state"): lambda _: Answer.of(self.state()),
            ("GET", "/scene"): lambda _: Answer.of(self.session.drawing()),
            ("GET", "/export"): self._export,
            ("POST", "/upload"): self._upload,
            ("POST", "/register"): self._register,
            ("POST", "/hand"): self._take_from_hand,
            ("POST", "/refine"): self._refine,
        }
        try:
            self._server = ViewerServer(self._gate, port, Routes(actions, self._events))
        except PlueckernetError:
            self._folder.cleanup()
            raise

    @property
    def port(self) -> int:
        """The port in use; if the requested port was taken, another one."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address of the page, with the token without which nothing is answered."""
        return self._gate.url(self.port)

    def load(self, side: Side, path: Path) -> None:
        """Read a map from a file and show it."""
        self.session.load(side, path)
        self._tell()

    def show(self, reports: Sequence[ReadReport]) -> None:
        """Show maps that have been read: the source, and the target if there are two."""
        for side, report in zip(SIDES, reports, strict=False):
            self.session.put(side, report)
        self._tell()

    def register(self) -> None:
        """Register the maps and show the result."""
        try:
            self.session.register(self._tell_stage)
            self._registrations += 1
        finally:
            self._stage = None
            self._tell()

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        while True:
            time.sleep(3600)

    def stop(self) -> None:
        """Stop the server."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def state(self) -> dict[str, Any]:
        """What the page shows beside the picture."""
        session = self.session
        return {
            "version": self._version,
            "maps": {side: self._map_text(side) for side in SIDES},
            "ready": session.ready,
            "registrations": self._registrations,
            "focus": session.focus,
            "poses": [pose.name for pose in session.shown],
            "status": "" if session.result is None else str(session.result.status),
            "cards": session.cards(),
            "ellipsoid": session.result is not None and session.result.covariance is not None,
        }

    # What the page asks for

    def _page(self, _: Request) -> Answer:
        nonce = page_nonce()
        stage = {
            "view_label": "Lines of both maps; the view can be turned, moved and zoomed",
            "after": "after", "no_ellipsoid": " hidden", "no_choice": " hidden", "pose_options": "", "range": "",
            "drawn_note": f" Of a map with more than {MAX_DRAWN_LINES:,} lines, the longest are drawn.",
        }  # fmt: skip
        fields = {
            "version": escape(__version__),
            "style": asset("page.css") + asset("viewer.css", "plueckernet.viewer"),
            "stage": filled(asset("stage.html"), stage),
            "footer": escape(FOOTER),
            "nonce": nonce,
            "script": stage_script() + asset("viewer.js", "plueckernet.viewer"),
        }
        page = filled(asset("viewer.html", "plueckernet.viewer"), fields)
        return Answer(page.encode(), "text/html; charset=utf-8", nonce=nonce)

    def _upload(self, request: Request) -> Answer:
        side = next((side for side in SIDES if side == request.query.get("side")), None)
        if side is None:
            raise InputError("a file is the source or the target")
        arriving = self._uploads.received(request.query.get("name", ""), request.size, request.body)
        with arriving as path, self._acting(wait=True):  # two files may be dropped at once
            self.load(side, path)
        return Answer.of({})

    def _register(self, _: Request) -> Answer:
        with self._acting():
            self.register()
        return Answer.of({})

    def _take_from_hand(self, request: Request) -> Answer:
        document = request.document()
        motion = Motion.from_quaternion(_numbers(document, "quaternion", 4), _numbers(document, "translation", 3))
        with self._acting():
            self.session.move_by_hand(self.session.frame().pose(motion))
            self._tell()
        return Answer.of({})

    def _refine(self, request: Request) -> Answer:
        with self._acting():
            self.session.refine(_index(request.document().get("pose")))
            self._tell()
        return Answer.of({})

    def _export(self, request: Request) -> Answer:
        name = request.query.get("name", "")
        if self.session.result is None or name not in _KINDS:
            raise InputError("there is nothing to export: register the maps first")
        if name == "report.html":
            content = self.session.report().encode()
        elif name == "result.json":
            content = (json.dumps(self.session.result.to_dict(), indent=1, allow_nan=False) + "\n").encode()
        else:
            with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
                path = Path(folder) / name
                write_lines(path, self.session.aligned(_index(request.query.get("pose", "0"))))
                content = path.read_bytes()
        return Answer(content, _KINDS[name], name)

    # News for all pages

    def _events(self, send: Callable[[bytes], None]) -> None:
        """Send the version of the state and the stage whenever one of them changes."""
        last: dict[str, Any] = {}
        while not self._closed:
            with self._news:
                self._news.wait_for(partial(self._is_news, last), timeout=_HEARTBEAT)
                news = self._told()
            send(f"data: {json.dumps(news)}\n\n".encode() if news != last else b":\n\n")
            last = news

    def _is_news(self, last: dict[str, Any]) -> bool:
        return self._closed or self._told() != last

    def _told(self) -> dict[str, Any]:
        stage = self._stage
        progress = 0.0 if stage is None else (STAGES.index(stage) + 1) / (len(STAGES) + 1)
        return {"version": self._version, "stage": stage, "progress": round(progress, 3)}

    def _tell(self) -> None:
        with self._news:
            self._version += 1
            self._news.notify_all()

    def _tell_stage(self, stage: str) -> None:
        with self._news:
            self._stage = stage
            self._news.notify_all()

    @contextmanager
    def _acting(self, wait: bool = False) -> Iterator[None]:
        """One action at a time; errors name uploaded files as the user does."""
        if not self._busy.acquire(blocking=wait):
            raise InputError("another action is still running")
        try:
            yield
        except PlueckernetError as error:
            raise InputError(_without_folders(str(error), self._folder.name)) from error
        finally:
            self._busy.release()

    def _map_text(self, side: Side) -> str | None:
        """Name, format and number of lines of a map."""
        if side not in self.session.maps:
            return None
        report = self.session.maps[side]
        kind = "infinite lines" if report.lines.endpoints is None else "segments"
        left = "".join(f"; left out {count}: {reason}" for reason, count in report.dropped.items())
        return f"{report.path.name} ({report.format}): {len(report.lines):,} {kind}{left}"


def _without_folders(text: str, folder: str) -> str:
    """A message in which uploaded files have their own names."""
    return re.sub(rf"{re.escape(folder)}/(tmp\w+/)?", "", text)


def _numbers(document: dict[str, Any], name: str, count: int) -> np.ndarray:
    """A vector of a request."""
    values = document.get(name)
    numeric = isinstance(values, list) and all(type(value) in (int, float) for value in values)
    vector = np.array(values if numeric else [], dtype=np.float64)
    if vector.shape != (count,) or not np.isfinite(vector).all() or not np.linalg.norm(vector) < 1e15:
        raise InputError(f"{name}: expected {count} numbers")
    if name == "quaternion":
        if not np.linalg.norm(vector) > 0:
            raise InputError("quaternion: expected a length above zero")
        vector /= np.linalg.norm(vector)
    return vector


def _index(value: object) -> int:
    """The place of a pose, of a request."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise InputError("expected the place of a pose")
    return int(text)
