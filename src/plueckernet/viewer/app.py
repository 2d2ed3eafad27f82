"""The page of the viewer: controls, and what happens when they are used."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from html import escape
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any

from plueckernet.errors import InputError, MissingDependencyError, PlueckernetError
from plueckernet.io import write_lines
from plueckernet.registration import STAGES
from plueckernet.report.words import belief, digits, matrix_rows
from plueckernet.viewer.session import SIDES, WIDEST, Session, Side, View
from plueckernet.viewer.stage import Show, Stage

_STATUS = {
    "success": ("Registered", "#4fd6a7"),
    "ambiguous": ("Ambiguous", "#f0bd5a"),
    "failed": ("Not registered", "#ff8f8f"),
}
_STEPS = 24  # of the way from before to after, when that is shown


class Viewer:
    """A page in the browser on which two maps are registered; it runs until :meth:`stop`."""

    def __init__(self, host: str = "127.0.0.1", port: int = 8080) -> None:
        try:
            import viser
        except ImportError as error:
            raise MissingDependencyError("viser", "view") from error
        try:
            with _silence():
                self.server = viser.ViserServer(host=host, port=port, label="plueckernet", verbose=False)
        except OSError as error:
            raise InputError(f"{host}:{port}: cannot be served: {error.strerror or error}") from error
        self.session = Session()
        self._folder = tempfile.TemporaryDirectory(prefix="plueckernet-")
        self._busy = threading.Lock()
        self.server.gui.configure_theme(dark_mode=True, control_width="large", show_logo=False, show_share_button=False)
        self._stage = Stage(self.server)
        self._build_maps()
        self._build_result()
        self._build_hand()
        self._build_export()
        self._refresh()

    @property
    def port(self) -> int:
        """Where it listens, which is another one if the one asked for is taken."""
        return self.server.get_port()

    def load(self, side: Side, path: Path) -> None:
        """Read a map from a file and show it."""
        report = self.session.load(side, path)
        kind = "infinite lines" if report.lines.endpoints is None else "segments"
        left = "".join(f"; left out {count}: {reason}" for reason, count in report.dropped.items())
        self._labels[side].content = _map(side, f"{path.name} ({report.format}): {len(report.lines):,} {kind}{left}")
        self._stage.place(self.session)
        if self._stage.gizmo is not None:
            self._stage.gizmo.on_update(self._dragged)
        self._refresh()

    def register(self) -> None:
        """Find the pose and show how the maps come together."""
        self._bar.visible = True
        try:
            self.session.register(self._tell_stage)
        finally:
            self._bar.visible = False
            self._stage_name.content = ""
        self._refresh()
        self._play()

    def stop(self) -> None:
        """Close the page."""
        with _silence():
            self.server.stop()
        self._folder.cleanup()

    # The controls

    def _build_maps(self) -> None:
        gui = self.server.gui
        self._complaints: dict[str, str] = {}
        self._message = gui.add_html("")
        gui.add_html(_drop_target())
        self._labels = {}
        for side in SIDES:
            button = gui.add_upload_button(
                f"Open the {side} …", hint="OBJ, PLY, DXF, CityJSON, LIMAP, CSV, text, NPY, NPZ"
            )
            button.on_upload(self._uploaded(side))
            self._labels[side] = gui.add_html(_map(side, None))
        self._register = gui.add_button("Register", color="blue", disabled=True)
        self._register.on_click(self._action(lambda _: self.register()))
        self._bar = gui.add_progress_bar(0, animated=True, visible=False)
        self._stage_name = gui.add_html("")

    def _build_result(self) -> None:
        gui = self.server.gui
        self._verdict = gui.add_html("")
        with gui.add_folder("What is shown"):
            self._pose = gui.add_dropdown("Pose", ("as they came",), disabled=True)
            self._progress = gui.add_slider("Before – after", 0.0, 1.0, 0.01, 1.0, disabled=True)
            self._threshold = gui.add_slider("Threshold", 0.0, WIDEST, 0.02, 1.0, disabled=True, hint="In tolerances")
            self._count = gui.add_html("")
            self._shown = {name: gui.add_checkbox(name.capitalize(), True) for name in (*SIDES, "matches", "unmatched")}
        self._pose.on_update(self._action(self._choose))
        controls: list[Any] = [self._progress, self._threshold, *self._shown.values()]
        for control in controls:
            control.on_update(self._redraw)

    def _build_hand(self) -> None:
        gui = self.server.gui
        with gui.add_folder("By hand"):
            self._by_hand = gui.add_checkbox("Move source", False, disabled=True, hint="Drag the arrows and rings")
            self._refine = gui.add_button("Refine from here", disabled=True)
        self._by_hand.on_update(self._redraw)
        self._refine.on_click(self._action(self._refine_pose))

    def _build_export(self) -> None:
        gui = self.server.gui
        with gui.add_folder("Export", expand_by_default=False):
            self._exports = {
                name: gui.add_button(label, disabled=True)
                for name, label in (
                    ("result.json", "Result (JSON)"),
                    ("aligned.obj", "Source in the target's frame (OBJ)"),
                    ("report.html", "Report (HTML)"),
                )
            }
        for name, button in self._exports.items():
            button.on_click(self._action(partial(self._export, name)))

    # What they do

    def _action(self, act: Callable[[Any], None], side: Side | None = None) -> Callable[[Any], None]:
        """One thing at a time; an error of ours is a message on the page.

        What is done to one side waits for its turn, as two files may be dropped at once, and leaves complaints about
        the other side alone.
        """

        def run(event: Any) -> None:
            if event.client is None:  # the program itself has moved a control
                return
            if not self._busy.acquire(blocking=side is not None):
                self._say("One thing at a time: something is still being worked on.")
                return
            try:
                self._hush(side)
                act(event)
            except PlueckernetError as error:
                self._say(str(error).replace(f"{self._folder.name}/", ""), side)
            finally:
                self._busy.release()

        return run

    def _uploaded(self, side: Side) -> Callable[[Any], None]:
        def take(event: Any) -> None:
            file = event.target.value
            path = Path(self._folder.name) / Path(file.name).name
            path.write_bytes(file.content)
            self.load(side, path)

        return self._action(take, side)

    def _tell_stage(self, stage: str) -> None:
        _put(self._bar, 100 * (STAGES.index(stage) + 1) / (len(STAGES) + 1))
        self._stage_name.content = _line("stage", stage)

    def _choose(self, _: Any) -> None:
        self.session.choose(str(self._pose.value))
        self._refresh()

    def _dragged(self, event: Any) -> None:
        if event.client is not None:
            self._stage.follow_gizmo()
        if event.phase == "end":
            self._action(self._take_from_hand)(event)

    def _take_from_hand(self, _: Any) -> None:
        pose = self._stage.pose_by_hand()
        if pose is not None and self.session.ready:
            self.session.move_by_hand(pose)
            _put(self._progress, 1.0)
            self._refresh()

    def _refine_pose(self, _: Any) -> None:
        self.session.refine()
        _put(self._by_hand, False)
        self._refresh()

    def _export(self, name: str, event: Any) -> None:
        if self.session.result is None:
            raise InputError("there is nothing to export: register the maps first")
        if name == "report.html":
            content = self.session.report().encode()
        elif name == "result.json":
            content = (json.dumps(self.session.result.to_dict(), indent=1, allow_nan=False) + "\n").encode()
        else:
            path = Path(self._folder.name) / name
            write_lines(path, self.session.aligned())
            content = path.read_bytes()
        event.client.send_file_download(name, content, save_immediately=True)

    def _play(self) -> None:
        """Let the maps come together before everybody's eyes."""
        if self.session.view is None:
            return
        for step in range(_STEPS + 1):
            share = step / _STEPS
            _put(self._progress, round(share * share * (3 - 2 * share), 2))
            self._draw()
            self._stage.look(self.session.view, self._progress.value)
            time.sleep(0.04)

    # What they show

    def _refresh(self) -> None:
        """The controls as the session has it."""
        session = self.session
        names = tuple(session.choices) or ("as they came",)
        if tuple(self._pose.options) != names:
            self._pose.options = names
        _put(self._pose, names[0] if session.view is None else session.view.name)
        self._register.disabled = not session.ready
        self._by_hand.disabled = not session.ready
        controls: list[Any] = [self._pose, self._progress, self._threshold, self._refine]
        for control in controls:
            control.disabled = session.view is None
        for button in self._exports.values():
            button.disabled = session.result is None
        self._verdict.content = self._verdict_html()
        self._draw()

    def _redraw(self, event: Any) -> None:
        if event.client is not None:
            self._draw()

    def _draw(self) -> None:
        view, threshold, progress = self.session.view, self._threshold.value, self._progress.value
        shown = {name: box.value for name, box in self._shown.items()}
        self._stage.draw(view, Show(**shown, threshold=threshold, progress=progress))
        self._stage.gizmo_at(view, progress, visible=self._by_hand.value)
        self._count.content = "" if view is None else _line("inliers", _counted(view, threshold))

    def _verdict_html(self) -> str:
        result = self.session.result
        if result is None:
            return ""
        words, colour = _STATUS[result.status]
        number, sure = belief(result)
        parts = [
            f'<b style="color:{colour}">{words}</b>: confidence {number}, {escape(sure)}.',
            escape(result.reason[0].upper() + result.reason[1:]) + ".",
        ]
        sigmas = result.sigmas()
        if result.target_T_source is not None and sigmas is not None:
            rows = escape("\n".join(matrix_rows(result.target_T_source.to("cpu"), sigmas[1])))
            parts.append(f'<pre style="font-size:11px;margin:.4em 0;overflow-x:auto">{rows}</pre>')
            parts.append(f"One sigma: {digits(sigmas[0])}° and {digits(sigmas[1])} at the middle of the common lines.")
        return _box("".join(f"<div>{part}</div>" for part in parts))

    def _say(self, text: str, side: Side | None = None) -> None:
        """Complain, about one side or about what was asked for."""
        self._complaints[side or ""] = text
        self._show_complaints()

    def _hush(self, side: Side | None) -> None:
        """Forget what was complained about: on one side, or everywhere."""
        self._complaints = {other: text for other, text in self._complaints.items() if side and other not in (side, "")}
        self._show_complaints()

    def _show_complaints(self) -> None:
        said = "".join(f"<div>{escape(text)}</div>" for text in self._complaints.values())
        self._message.content = said and _box(f'<div role="alert" style="color:#ff8f8f">{said}</div>')


def _silence() -> redirect_stdout[StringIO]:
    """Viser greets and says goodbye on standard output, asked or not."""
    return redirect_stdout(StringIO())


def _counted(view: View, threshold: float) -> str:
    return f"{int(view.inliers(threshold).sum())} pairs at most {digits(threshold * view.tolerance)} apart"


def _put(control: Any, value: object) -> None:
    """Move a control of the page."""
    control.value = value


def _drop_target() -> str:
    """Says that files can be dropped, and makes it so: scripts are not run in what a page is given, an image's are."""
    script = escape(files("plueckernet.viewer").joinpath("drop.js").read_text(encoding="utf-8"))
    pixel = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
    hint = '<span style="opacity:.65">Drop two files anywhere on this page, or open them:</span>'
    warning = '<div id="plueckernet-drop" role="status" style="color:#f0bd5a"></div>'
    return _box(f'{hint}{warning}<img src="{pixel}" alt="" style="position:absolute" onload="{script}">')


def _map(side: Side, text: str | None) -> str:
    """What is there of a side, on which a file can be dropped."""
    state, shown = ("missing", "no map yet") if text is None else ("there", text)
    return f'<div data-map="{state}" style="padding-bottom:.4em">{_line(side, shown)}</div>'


def _line(name: str, text: str) -> str:
    return _box(f'<span style="opacity:.65">{escape(name)}</span> {escape(text)}')


def _box(content: str) -> str:
    return f'<div style="padding:.2em 1em;font-size:13px;line-height:1.45;overflow-wrap:anywhere">{content}</div>'
