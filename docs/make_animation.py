"""Draw the moving picture of the README: ``python docs/make_animation.py SOURCE TARGET``.

The source is turned and moved at random, registered to the target, and shown on its way. The README shows two
reconstructions of one building from photos: the test data of Line3D++ (github.com/manhofer/Line3Dpp, MPL-2.0).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from plueckernet import Pose, coincident_lines, read_lines, register
from plueckernet.geometry.pose import rotation_exp, rotation_log
from plueckernet.report.frame import DrawingFrame, Motion, bounding_ball
from plueckernet.report.picture import as_segments

SIZE, FINER = (560, 340), 2  # pixels; lines are drawn on a finer canvas and averaged
BEFORE, WAY, AFTER = 8, 26, 20  # frames
BACKGROUND, SOURCE, TARGET, MATCHED = (255, 255, 255), (200, 72, 18), (120, 165, 235), (13, 128, 116)


def main() -> None:
    """Register and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images" / "registered.gif")
    parser.add_argument("--lines", type=int, default=1500, help="lines of each map that are drawn, the longest")
    options = parser.parse_args()
    target = read_lines(options.target)
    moved = Pose.random(generator=torch.Generator().manual_seed(4), translation=float(extent(as_segments(target))))
    source = moved @ read_lines(options.source)
    result = register(source, target)
    if not result:
        raise SystemExit(f"not registered: {result.reason}")
    matched, _ = coincident_lines(source, target, result.target_T_source)
    ends = as_segments(source), as_segments(target)
    frame = DrawingFrame.of(*ends)
    rows = [np.argsort(-np.linalg.norm(side[:, 1] - side[:, 0], axis=1))[: options.lines] for side in ends]
    local = frame.source(ends[0][rows[0]]), frame.target(ends[1][rows[1]])
    is_matched = np.isin(rows[0], matched[:, 0].numpy())
    images = [
        picture(way.moved(local[0]), local[1], is_matched & (share == 1), azimuth)
        for share, azimuth, way in steps(frame, frame.motion(result.target_T_source))
    ]
    images[0].save(
        options.out, save_all=True, append_images=images[1:], duration=[80] * (len(images) - 1) + [1500], loop=0,
        optimize=True,
    )  # fmt: skip


def extent(segments: np.ndarray) -> np.floating:
    """The largest extent of a map."""
    return np.ptp(segments.reshape(-1, 3), axis=0).max()


def steps(frame: DrawingFrame, after: Motion):
    """For each frame: the share of the way, the azimuth of the camera, the motion of the source."""
    before = frame.before()
    turn = rotation_log(torch.from_numpy(after.rotation @ before.rotation.T))
    total = BEFORE + WAY + AFTER
    for number in range(total):
        share = min(1.0, max(0.0, (number - BEFORE) / WAY))
        share = share * share * (3 - 2 * share)
        rotation = rotation_exp(share * turn).numpy() @ before.rotation
        translation = before.translation + share * (after.translation - before.translation)
        yield share, -1.0 - 0.4 * number / total, Motion(rotation, translation)


def picture(source: np.ndarray, target: np.ndarray, matched: np.ndarray, azimuth: float) -> Image.Image:
    """Both maps, the target below; matched lines of the source are green."""
    centre, radius = bounding_ball(target)
    high = 0.5
    right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    back = np.array([np.cos(high) * np.cos(azimuth), np.cos(high) * np.sin(azimuth), np.sin(high)])
    axes = np.stack([right, -np.cross(back, right)], -1) * (0.55 * FINER * SIZE[1] / radius)
    canvas = Image.new("RGB", (FINER * SIZE[0], FINER * SIZE[1]), BACKGROUND)
    draw = ImageDraw.Draw(canvas)
    colours = [MATCHED if line else SOURCE for line in matched]
    for lines, shades, width in ((target, [TARGET] * len(target), 3), (source, colours, 2)):
        flat = (lines - centre) @ axes + np.array(canvas.size) / 2
        for (start, end), shade in zip(flat, shades, strict=True):
            draw.line([*start, *end], fill=shade, width=width)
    return canvas.resize(SIZE, Image.Resampling.BOX).quantize(24, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main()
