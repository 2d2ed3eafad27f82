"""Draw the pictures of extraction.md: ``python docs/make_extraction_pictures.py SCANS [NAME ...]``.

SCANS is a folder with clouds of libpointmatcher, small_gicp and KITTI and frames of 7-Scenes, in the subfolders below.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import cv2
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

from plueckernet.extraction import Intrinsics, PointCloudSettings, extract_lines, extract_rgbd, read_points

IMAGES = Path(__file__).parent / "images"
KITCHEN = Intrinsics(585.0, 585.0, 320.0, 240.0)


@dataclass(frozen=True)
class View:
    """A cloud and from where to look at it."""

    cloud: str
    azimuth: float  # degrees
    elevation: float
    half: tuple[float, float]  # half width and height of the picture, in metres
    viewpoint: tuple[float, float, float] | None = None
    centre: tuple[float, float] = (0.0, 0.0)


VIEWS = {
    "apartment": View("lidar_libpointmatcher/cloud_0.vtk", -50, 35, (4.2, 2.52), centre=(1.5, 0.55)),
    "yard": View("lidar_small_gicp/target.ply", -60, 35, (10.5, 6.3), (0.0, 0.0, 0.0), (0.0, -0.5)),
    "street": View("lidar_kitti07/000000/points.bin", -60, 35, (30.0, 18.0)),
}


def projected(points: np.ndarray, view: View) -> np.ndarray:
    """Points as seen from far away, right and up."""
    azimuth, elevation = np.radians([view.azimuth, view.elevation])
    towards = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    right = np.cross([0.0, 0.0, 1.0], towards)
    right /= np.linalg.norm(right)
    return np.stack([points @ right, points @ np.cross(towards, right)], axis=-1) - view.centre


def draw_cloud(scans: Path, name: str) -> None:
    """Points in grey, lines in red."""
    view = VIEWS[name]
    points = read_points(scans / view.cloud)
    extracted = extract_lines(points, PointCloudSettings(viewpoint=view.viewpoint, workers=1))
    figure, axes = plt.subplots(figsize=(9, 9 * view.half[1] / view.half[0]))
    flat = projected(points, view)
    axes.scatter(*flat[(np.abs(flat) < view.half).all(axis=1)].T, s=0.8, c="0.65", linewidths=0)
    axes.add_collection(LineCollection(projected(extracted.endpoints, view), colors="#c1121f", linewidths=1.6))
    axes.set(xlim=(-view.half[0], view.half[0]), ylim=(-view.half[1], view.half[1]), aspect="equal")
    axes.axis("off")
    figure.subplots_adjust(0, 0, 1, 1)
    figure.savefig(IMAGES / f"extraction-{name}.png", dpi=100, pil_kwargs={"optimize": True})
    plt.close(figure)


def draw_frame(scans: Path, number: int = 0) -> None:
    """An image with its lines, nearer ones warmer, as a JPEG would be too coarse for them."""
    stem = scans / "rgbd_7scenes_kitchen" / f"frame-{number:06d}"
    colour = cv2.imread(f"{stem}.color.jpg")
    depth = cv2.imread(f"{stem}.depth.png", cv2.IMREAD_UNCHANGED).astype(float)
    depth[depth == 65535] = 0
    extracted = extract_rgbd(colour, depth / 1000, KITCHEN)
    pixels = extracted.endpoints @ KITCHEN.matrix().T
    pixels = pixels[..., :2] / pixels[..., 2:]
    figure, axes = plt.subplots(figsize=(8, 6))
    axes.imshow(cv2.cvtColor(colour, cv2.COLOR_BGR2GRAY), cmap="gray", vmin=-60)
    lines = LineCollection(pixels, array=extracted.endpoints[..., 2].mean(axis=1), cmap="plasma_r", linewidths=1.6)
    axes.add_collection(lines)
    figure.colorbar(lines, ax=axes, label="depth (m)", shrink=0.8, pad=0.02)
    axes.axis("off")
    figure.savefig(IMAGES / "extraction-kitchen.png", dpi=85, bbox_inches="tight", pil_kwargs={"optimize": True})
    plt.close(figure)


if __name__ == "__main__":
    folder, *wanted = sys.argv[1:]
    for picture in wanted or [*VIEWS, "kitchen"]:
        if picture == "kitchen":
            draw_frame(Path(folder))
        else:
            draw_cloud(Path(folder), picture)
