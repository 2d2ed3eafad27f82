"""The maps in viser's scene: matched lines coloured and connected, and a handle to move the source by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from plueckernet.geometry import Pose
from plueckernet.report.frame import DrawingFrame, Motion, bounding_ball, longest_first, match_connectors
from plueckernet.report.picture import Endpoints, as_segments
from plueckernet.viewer.session import SIDES, PoseView, Session, Side

if TYPE_CHECKING:
    from viser import FrameHandle, TransformControlsHandle, ViserServer

_COLOURS = {"source": (251, 154, 85), "target": (106, 165, 255)}
_RAMP = np.array([(45, 212, 191), (163, 224, 79), (252, 211, 77), (251, 138, 60), (251, 86, 120)])
_UNMATCHED_BRIGHTNESS = 0.6  # relative to a matched line; the background is black


@dataclass(frozen=True)
class DisplayOptions:
    """The state of the page's display controls."""

    source: bool = True
    target: bool = True
    matches: bool = True
    unmatched: bool = True
    threshold_factor: float = 1.0  # in inlier thresholds
    progress: float = 1.0  # 0 before registration, 1 after it


class Stage:
    """Draws a session."""

    def __init__(self, server: ViserServer) -> None:
        self._server = server
        self._scene = server.scene
        self._scene.set_up_direction("+z")
        self._frame: DrawingFrame | None = None
        self._segments: dict[Side, Endpoints] = {}  # target in the drawing frame, source relative to its median
        # The node of the source is never removed: a page keeps the old pose of a node that is added again.
        self._source: FrameHandle = self._scene.add_frame("/source", show_axes=False)
        self.gizmo: TransformControlsHandle | None = None

    def place(self, session: Session) -> None:
        """Place new maps in the drawing frame and point all cameras at them."""
        frame = session.frame()
        self._frame, self._segments = frame, {}
        if "source" in session.maps:
            self._segments["source"] = frame.source(as_segments(session.maps["source"].lines))
        if "target" in session.maps:
            self._segments["target"] = frame.target(as_segments(session.maps["target"].lines))
        radius = self.look(None, 0.0)
        placed = self._placed(frame.before())
        self._grid(placed.get("target", placed.get("source", np.zeros((1, 2, 3)))))
        self.gizmo = self._scene.add_transform_controls("/gizmo", scale=0.35 * radius, visible=False)

    def look(self, view: PoseView | None, progress: float) -> float:
        """Point the cameras of all clients, present and future, at the maps; return the radius of the scene."""
        centre, radius = bounding_ball(*self._placed(self.motion(view, progress)).values())
        eye = centre + 1.9 * radius * np.array([0.45, -0.75, 0.55])
        self._server.initial_camera.position = tuple(eye)
        self._server.initial_camera.look_at = tuple(centre)
        for client in self._server.get_clients().values():
            client.camera.position, client.camera.look_at = eye, centre
        return radius

    def draw(self, view: PoseView | None, options: DisplayOptions) -> None:
        """Draw both maps, with the matched lines under the pose that is shown."""
        pairs, colours = np.zeros((0, 2), dtype=np.int64), np.zeros((0, 3), dtype=np.uint8)
        if view is not None:
            inlier = view.inliers(options.threshold_factor)
            pairs, colours = view.pairs[inlier], _ramp(view.residuals[inlier, 0] / view.inlier_distance)
        with self._server.atomic():
            for column, side in enumerate(SIDES):
                if side in self._segments:
                    self._draw_side(side, pairs[:, column], colours, options)
            self._move_source(self.motion(view, options.progress))
            self._draw_matches(view, pairs, colours, options)

    def motion(self, view: PoseView | None, progress: float) -> Motion:
        """The motion of the source between before and after registration."""
        if self._frame is None:
            return Motion(np.eye(3), np.zeros(3))
        before = self._frame.before()
        return before if view is None else before.towards(self._frame.motion(view.pose), progress)

    def follow_gizmo(self) -> None:
        """Move the source with the gizmo and remove the connectors, which no longer fit."""
        if self.gizmo is not None:
            self._scene.remove_by_name("/matches")
            self._move_source(_motion_of(self.gizmo))

    def gizmo_at(self, view: PoseView | None, progress: float, visible: bool) -> None:
        """Put the gizmo at the source."""
        if self.gizmo is not None:
            motion = self.motion(view, progress)
            self.gizmo.wxyz, self.gizmo.position = motion.quaternion, motion.translation
            self.gizmo.visible = visible

    def pose_by_hand(self) -> Pose | None:
        """The pose at which the gizmo is."""
        if self._frame is None or self.gizmo is None:
            return None
        return self._frame.pose(_motion_of(self.gizmo))

    def _placed(self, motion: Motion) -> dict[Side, Endpoints]:
        """The maps in the drawing frame."""
        return {side: motion.moved(lines) if side == "source" else lines for side, lines in self._segments.items()}

    def _move_source(self, motion: Motion) -> None:
        self._source.wxyz, self._source.position = motion.quaternion, motion.translation

    def _draw_side(
        self, side: Side, matched: Int64[np.ndarray, " k"], colours: UInt8[np.ndarray, "k 3"], options: DisplayOptions
    ) -> None:
        """Draw the matched lines in their colours and the others dim."""
        segments = self._segments[side]
        unmatched = np.setdiff1d(longest_first(segments), matched)
        visible = options.source if side == "source" else options.target
        plain = np.array([_COLOURS[side]])
        if not options.matches:
            colours = np.repeat(plain, len(matched), 0).astype(np.uint8)
        dim = (plain * (_UNMATCHED_BRIGHTNESS if options.matches and len(matched) else 1.0)).astype(np.uint8)
        self._lines(f"/{side}/matched", segments[matched], colours, 2.0, visible)
        self._lines(f"/{side}/unmatched", segments[unmatched], dim, 1.0, visible and options.unmatched)

    def _draw_matches(
        self,
        view: PoseView | None,
        pairs: Int64[np.ndarray, "k 2"],
        colours: UInt8[np.ndarray, "k 3"],
        options: DisplayOptions,
    ) -> None:
        if view is None or self._frame is None or not (options.matches and options.source and options.target):
            self._scene.remove_by_name("/matches")
            return
        ends = [self._segments[side][pairs[:, column]] for column, side in enumerate(SIDES)]
        connectors = match_connectors(ends[0], ends[1], self._frame.motion(view.pose))
        connectors[:, 0] = self.motion(view, options.progress).moved(connectors[:, 0])
        self._lines("/matches", connectors, colours, 1.0, True)

    def _lines(
        self, name: str, ends: Endpoints, colours: UInt8[np.ndarray, "_ 3"], width: float, visible: bool
    ) -> None:
        if not visible or len(ends) == 0:
            self._scene.remove_by_name(name)
            return
        # The page expects linear light, not sRGB.
        linear = (255 * (colours / 255) ** 2.2).astype(np.uint8)
        end_colours = np.broadcast_to(linear[:, None], (len(ends), 2, 3))
        self._scene.add_line_segments(
            name, ends.astype(np.float32), end_colours, thickness=width, thickness_units="screen"
        )

    def _grid(self, segments: Endpoints) -> None:
        centre, radius = bounding_ball(segments)
        cell = 10.0 ** np.floor(np.log10(radius / 2))
        floor = float(np.quantile(segments[..., 2], 0.02))
        self._scene.add_grid(
            "/grid", 4 * radius, 4 * radius, cell_size=cell, section_size=5 * cell,
            position=(float(centre[0]), float(centre[1]), floor),
            cell_color=(45, 55, 68), section_color=(62, 75, 92), shadow_opacity=0.0,
        )  # fmt: skip


def _motion_of(gizmo: TransformControlsHandle) -> Motion:
    return Motion.from_quaternion(
        np.asarray(gizmo.wxyz, dtype=np.float64), np.asarray(gizmo.position, dtype=np.float64)
    )


def _ramp(residual: Float64[np.ndarray, " k"]) -> UInt8[np.ndarray, "k 3"]:
    """Colours from green to red of residuals in inlier thresholds."""
    stops = np.linspace(0, 1, len(_RAMP))
    return np.stack([np.interp(residual, stops, channel) for channel in _RAMP.T], -1).astype(np.uint8)
