"""The page of the viewer: its controls and their actions."""

from __future__ import annotations

import json
import re
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
from types import SimpleNamespace
from typing import Any

from plueckernet.errors import InputError, MissingDependencyError, PlueckernetError
from plueckernet.io import write_lines
from plueckernet.report.words import IN_VIEWER, as_sentence, matrix_rows, sigma_words, two_digits, verdict
from plueckernet.stages import STAGES
from plueckernet.viewer.gate import Gate
from plueckernet.viewer.session import MAX_THRESHOLD_FACTOR, SIDES, PoseView, Session, Side
from plueckernet.viewer.stage import DisplayOptions, Stage
from plueckernet.viewer.uploads import Uploads

_STATUS_COLOURS = {"success": "#4fd6a7", "ambiguous": "#f0bd5a", "failed": "#ff8f8f"}
_UNREGISTERED = "before registration"
_ANIMATION_STEPS = 24


class Viewer:
    """Serves a page on which two maps can be registered, until :meth:`stop` is called."""

    def __init__(self, host: str = "127.0.0.1", port: int = 8080) -> None:
        try:
            import viser
        except ImportError as error:
            raise MissingDependencyError("viser", "view") from error
        self._gate = Gate(host)
        try:
            with _silence(), self._gate.installed():
                self.server = viser.ViserServer(host=host, port=port, label="plueckernet", verbose=False)
        except OSError as error:
            raise InputError(f"{host}:{port}: cannot be served: {error.strerror or error}") from error
        self.session = Session()
        self._folder = tempfile.TemporaryDirectory(prefix="plueckernet-")
        self._busy = threading.Lock()
        self._uploads = Uploads(self.server, Path(self._folder.name), self._uploaded, self._refused)
        self.server.gui.configure_theme(dark_mode=True, control_width="large", show_logo=False, show_share_button=False)
        self._stage = Stage(self.server)
        self._build_maps()
        self._build_result()
        self._build_hand()
        self._build_export()
        self._refresh()

    @property
    def port(self) -> int:
        """The port in use; if the requested port was taken, another one."""
        return self.server.get_port()

    @property
    def url(self) -> str:
        """The address of the page, with the token without which nothing is answered."""
        return self._gate.url(self.port)

    def load(self, side: Side, path: Path, format: str | None = None) -> None:
        """Read a map from a file and show it."""
        report = self.session.load(side, path, format)
        kind = "infinite lines" if report.lines.endpoints is None else "segments"
        left = "".join(f"; left out {count}: {reason}" for reason, count in report.dropped.items())
        self._labels[side].content = _map(side, f"{path.name} ({report.format}): {len(report.lines):,} {kind}{left}")
        self._stage.place(self.session)
        if self._stage.gizmo is not None:
            self._stage.gizmo.on_update(self._dragged)
        self._refresh()

    def register(self) -> None:
        """Register the maps and animate the motion of the source."""
        self._bar.visible = True
        try:
            self.session.register(self._tell_stage)
        finally:
            self._bar.visible = False
            self._stage_name.content = ""
        self._refresh()
        self._play()

    def stop(self) -> None:
        """Stop the server."""
        with _silence():
            self.server.stop()
        self._folder.cleanup()

    # Building the controls

    def _build_maps(self) -> None:
        gui = self.server.gui
        self._messages: dict[str, str] = {}
        self._message_box = gui.add_html("")
        gui.add_html(_drop_target())
        self._labels = {}
        self._sides: dict[str, Side] = {}  # by the id of the upload button
        for side in SIDES:
            button = gui.add_upload_button(
                f"Open the {side} …", hint="OBJ, PLY, DXF, CityJSON, LIMAP, CSV, text, NPY, NPZ"
            )
            self._sides[self._uploads.accept(button)] = side
            self._labels[side] = gui.add_html(_map(side, None))
        self._register = gui.add_button("Register", color="blue", disabled=True)
        self._register.on_click(self._action(lambda _: self.register()))
        self._bar = gui.add_progress_bar(0, animated=True, visible=False)
        self._stage_name = gui.add_html("")

    def _build_result(self) -> None:
        gui = self.server.gui
        self._verdict = gui.add_html("")
        with gui.add_folder("Display"):
            self._pose = gui.add_dropdown("Pose", (_UNREGISTERED,), disabled=True)
            self._progress = gui.add_slider("Before – after", 0.0, 1.0, 0.01, 1.0, disabled=True)
            self._threshold = gui.add_slider(
                "Threshold", 0.0, MAX_THRESHOLD_FACTOR, 0.02, 1.0, disabled=True, hint="In inlier thresholds"
            )
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

    # Actions

    def _action(self, act: Callable[[Any], None], side: Side | None = None) -> Callable[[Any], None]:
        """Run one action at a time and show errors on the page.

        Two files may be dropped at once: an action on one side waits for its turn and keeps the messages about the
        other side.
        """

        def run(event: Any) -> None:
            if event.client is None:  # the program has moved the control
                return
            if not self._busy.acquire(blocking=side is not None):
                self._show_message("Another action is still running.")
                return
            try:
                self._clear_messages(side)
                act(event)
            except PlueckernetError as error:
                self._show_message(_without_folders(str(error), self._folder.name), side)
            finally:
                self._busy.release()

        return run

    def _uploaded(self, button: str, path: Path, client: Any) -> None:
        side = self._sides[button]
        self._action(lambda _: self.load(side, path), side)(SimpleNamespace(client=client))

    def _refused(self, button: str, reason: str) -> None:
        self._show_message(reason, self._sides[button])

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
        """Animate the source from before to after."""
        if self.session.view is None:
            return
        for step in range(_ANIMATION_STEPS + 1):
            elapsed = step / _ANIMATION_STEPS
            _put(self._progress, round(elapsed * elapsed * (3 - 2 * elapsed), 2))
            self._draw()
            self._stage.look(self.session.view, self._progress.value)
            time.sleep(0.04)

    # Display

    def _refresh(self) -> None:
        """Set the controls to the state of the session."""
        session = self.session
        names = tuple(session.choices) or (_UNREGISTERED,)
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
        boxes = {name: box.value for name, box in self._shown.items()}
        self._stage.draw(view, DisplayOptions(**boxes, threshold_factor=threshold, progress=progress))
        self._stage.gizmo_at(view, progress, visible=self._by_hand.value)
        self._count.content = "" if view is None else _line("inliers", _inlier_count(view, threshold))

    def _verdict_html(self) -> str:
        result = self.session.result
        if result is None:
            return ""
        text = verdict(result, IN_VIEWER)
        paragraphs = [
            f'<b style="color:{_STATUS_COLOURS[result.status]}">{escape(text.headline)}</b>',
            *(escape(sentence) for sentence in (text.summary, as_sentence(result.reason))),
            *(
                f'<span style="color:{_STATUS_COLOURS["ambiguous"]}">{escape(warning)}</span>'
                for warning in text.warnings
            ),
            *([f"<b>Next:</b> {escape(text.advice)}"] if text.advice else []),
        ]
        sigmas = result.sigmas()
        if result.target_T_source is not None and sigmas is not None:
            rows = escape("\n".join(matrix_rows(result.target_T_source, sigmas[1])))
            paragraphs.append(f'<pre style="font-size:11px;margin:.4em 0;overflow-x:auto">{rows}</pre>')
            paragraphs.append(f"One sigma: {sigma_words(sigmas)}.")
        return _box("".join(f"<div>{paragraph}</div>" for paragraph in paragraphs))

    def _show_message(self, text: str, side: Side | None = None) -> None:
        """Show a message about one side or about the action."""
        self._messages[side or ""] = text
        self._show_messages()

    def _clear_messages(self, side: Side | None) -> None:
        """Remove the messages about one side and the action, or all of them."""
        self._messages = {other: text for other, text in self._messages.items() if side and other not in (side, "")}
        self._show_messages()

    def _show_messages(self) -> None:
        rows = "".join(f"<div>{escape(text)}</div>" for text in self._messages.values())
        self._message_box.content = rows and _box(f'<div role="alert" style="color:#ff8f8f">{rows}</div>')


def _without_folders(text: str, folder: str) -> str:
    """A message in which uploaded files have their own names."""
    return re.sub(rf"{re.escape(folder)}/(tmp\w+/)?", "", text)


def _silence() -> redirect_stdout[StringIO]:
    """Suppress what viser prints to standard output when it starts and stops."""
    return redirect_stdout(StringIO())


def _inlier_count(view: PoseView, factor: float) -> str:
    return f"{int(view.inliers(factor).sum())} pairs at most {two_digits(factor * view.inlier_distance)} apart"


def _put(control: Any, value: object) -> None:
    """Set the value of a control."""
    control.value = value


def _drop_target() -> str:
    """The hint that files can be dropped, and the script behind it.

    The page does not run scripts in HTML that is added later, but it does run the load handler of an image.
    """
    script = escape(files("plueckernet.viewer").joinpath("drop.js").read_text(encoding="utf-8"))
    pixel = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
    hint = '<span style="opacity:.65">Drop two files anywhere on this page, or open them:</span>'
    warning = '<div id="plueckernet-drop" role="status" style="color:#f0bd5a"></div>'
    return _box(f'{hint}{warning}<img src="{pixel}" alt="" style="position:absolute" onload="{script}">')


def _map(side: Side, text: str | None) -> str:
    """The description of the map of one side; a file can be dropped on it."""
    state, label = ("missing", "no map") if text is None else ("loaded", text)
    return f'<div data-map="{state}" style="padding-bottom:.4em">{_line(side, label)}</div>'


def _line(name: str, text: str) -> str:
    return _box(f'<span style="opacity:.65">{escape(name)}</span> {escape(text)}')


def _box(content: str) -> str:
    return f'<div style="padding:.2em 1em;font-size:13px;line-height:1.45;overflow-wrap:anywhere">{content}</div>'
