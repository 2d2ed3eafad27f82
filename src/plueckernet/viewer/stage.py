"""The maps in viser's scene: lines coloured by what they match, joined, and moved by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from plueckernet.geometry import Pose
from plueckernet.report.frame import Frame, Motion, fitted_ball, joined, longest_first
from plueckernet.report.picture import Segments, as_segments
from plueckernet.viewer.session import SIDES, Session, Side, View

if TYPE_CHECKING:
    from viser import FrameHandle, TransformControlsHandle, ViserServer

_COLOURS = {"source": (251, 154, 85), "target": (106, 165, 255)}
_RAMP = np.array([(45, 212, 191), (163, 224, 79), (252, 211, 77), (251, 138, 60), (251, 86, 120)])
_DIM = 0.6  # of a line without a partner; the background is black


@dataclass(frozen=True)
class Show:
    """What the controls of the page ask for."""

    source: bool = True
    target: bool = True
    matches: bool = True
    unmatched: bool = True
    threshold: float = 1.0  # in tolerances
    progress: float = 1.0  # from the maps as they came to the maps registered


class Stage:
    """Draws a session."""

    def __init__(self, server: ViserServer) -> None:
        self._server = server
        self._scene = server.scene
        self._scene.set_up_direction("+z")
        self._frame: Frame | None = None
        self._segments: dict[Side, Segments] = {}  # where they are drawn; the source about its middle
        # The source's lines are attached to it. It is never removed: a page keeps the pose of a node that comes back.
        self._source: FrameHandle = self._scene.add_frame("/source", show_axes=False)
        self.gizmo: TransformControlsHandle | None = None

    def place(self, session: Session) -> None:
        """New maps: work out where they are drawn and let everybody look there."""
        frame = session.frame()
        self._frame, self._segments = frame, {}
        if "source" in session.maps:
            self._segments["source"] = frame.source(as_segments(session.maps["source"].lines))
        if "target" in session.maps:
            self._segments["target"] = frame.target(as_segments(session.maps["target"].lines))
        radius = self.look(None, 0.0)
        drawn = self._drawn(frame.before())
        self._grid(drawn.get("target", drawn.get("source", np.zeros((1, 2, 3)))))
        self.gizmo = self._scene.add_transform_controls("/gizmo", scale=0.35 * radius, visible=False)

    def look(self, view: View | None, progress: float) -> float:
        """Turn all eyes, and those to come, to where the maps are; the radius of what there is to see."""
        centre, radius = fitted_ball(*self._drawn(self.motion(view, progress)).values())
        eye = centre + 1.9 * radius * np.array([0.45, -0.75, 0.55])
        self._server.initial_camera.position = tuple(eye)
        self._server.initial_camera.look_at = tuple(centre)
        for client in self._server.get_clients().values():
            client.camera.position, client.camera.look_at = eye, centre
        return radius

    def draw(self, view: View | None, show: Show) -> None:
        """Both maps as they match under the pose that is looked at, if there is one."""
        pairs, colours = np.zeros((0, 2), dtype=np.int64), np.zeros((0, 3), dtype=np.uint8)
        if view is not None:
            inlier = view.inliers(show.threshold)
            pairs, colours = view.pairs[inlier], _ramp(view.residuals[inlier, 0] / view.tolerance)
        with self._server.atomic():
            for column, side in enumerate(SIDES):
                if side in self._segments:
                    self._draw_side(side, pairs[:, column], colours, show)
            self._move_source(self.motion(view, show.progress))
            self._draw_matches(view, pairs, colours, show)

    def motion(self, view: View | None, progress: float) -> Motion:
        """Of the source between as it came and registered."""
        if self._frame is None:
            return Motion(np.eye(3), np.zeros(3))
        before = self._frame.before()
        return before if view is None else before.towards(self._frame.motion(view.pose), progress)

    def follow_gizmo(self) -> None:
        """The source goes where it is dragged; what joined it is out of date."""
        if self.gizmo is not None:
            self._scene.remove_by_name("/matches")
            self._move_source(_motion_of(self.gizmo))

    def gizmo_at(self, view: View | None, progress: float, visible: bool) -> None:
        """Put the handles for moving by hand where the source is."""
        if self.gizmo is not None:
            motion = self.motion(view, progress)
            self.gizmo.wxyz, self.gizmo.position = motion.quaternion, motion.translation
            self.gizmo.visible = visible

    def pose_by_hand(self) -> Pose | None:
        """Where somebody has put the source."""
        if self._frame is None or self.gizmo is None:
            return None
        return self._frame.pose(_motion_of(self.gizmo))

    def _drawn(self, motion: Motion) -> dict[Side, Segments]:
        """The maps where they are seen."""
        return {side: motion.moved(lines) if side == "source" else lines for side, lines in self._segments.items()}

    def _move_source(self, motion: Motion) -> None:
        self._source.wxyz, self._source.position = motion.quaternion, motion.translation

    def _draw_side(
        self, side: Side, matched: Int64[np.ndarray, " k"], colours: UInt8[np.ndarray, "k 3"], show: Show
    ) -> None:
        """The matched lines in their colours, the others dim."""
        segments = self._segments[side]
        drawn = longest_first(segments)
        alone = np.setdiff1d(drawn, matched)
        seen = show.source if side == "source" else show.target
        plain = np.array([_COLOURS[side]])
        if not show.matches:
            colours = np.repeat(plain, len(matched), 0).astype(np.uint8)
        dim = (plain * (_DIM if show.matches and len(matched) else 1.0)).astype(np.uint8)
        self._lines(f"/{side}/matched", segments[matched], colours, 2.0, seen)
        self._lines(f"/{side}/unmatched", segments[alone], dim, 1.0, seen and show.unmatched)

    def _draw_matches(
        self, view: View | None, pairs: Int64[np.ndarray, "k 2"], colours: UInt8[np.ndarray, "k 3"], show: Show
    ) -> None:
        if view is None or self._frame is None or not (show.matches and show.source and show.target):
            self._scene.remove_by_name("/matches")
            return
        ends = [self._segments[side][pairs[:, column]] for column, side in enumerate(SIDES)]
        joins = joined(ends[0], ends[1], self._frame.motion(view.pose))
        joins[:, 0] = self.motion(view, show.progress).moved(joins[:, 0])
        self._lines("/matches", joins, colours, 1.0, True)

    def _lines(self, name: str, ends: Segments, colours: UInt8[np.ndarray, "_ 3"], width: float, seen: bool) -> None:
        if not seen or len(ends) == 0:
            self._scene.remove_by_name(name)
            return
        # The page takes what it is given for light and not for the numbers of a screen.
        light = (255 * (colours / 255) ** 2.2).astype(np.uint8)
        both = np.broadcast_to(light[:, None], (len(ends), 2, 3))
        self._scene.add_line_segments(name, ends.astype(np.float32), both, thickness=width, thickness_units="screen")

    def _grid(self, still: Segments) -> None:
        centre, radius = fitted_ball(still)
        cell = 10.0 ** np.floor(np.log10(radius / 2))
        floor = float(np.quantile(still[..., 2], 0.02))
        self._scene.add_grid(
            "/grid", 4 * radius, 4 * radius, cell_size=cell, section_size=5 * cell,
            position=(float(centre[0]), float(centre[1]), floor),
            cell_color=(45, 55, 68), section_color=(62, 75, 92), shadow_opacity=0.0,
        )  # fmt: skip


def _motion_of(gizmo: TransformControlsHandle) -> Motion:
    return Motion.from_quaternion(
        np.asarray(gizmo.wxyz, dtype=np.float64), np.asarray(gizmo.position, dtype=np.float64)
    )


def _ramp(share: Float64[np.ndarray, " k"]) -> UInt8[np.ndarray, "k 3"]:
    """Colours from good to bad."""
    at = np.linspace(0, 1, len(_RAMP))
    return np.stack([np.interp(share, at, channel) for channel in _RAMP.T], -1).astype(np.uint8)
