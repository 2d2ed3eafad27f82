"""Lines from what sensors deliver: point clouds and RGB-D images.

What needs SciPy is loaded when first used, so that point clouds can be read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plueckernet.errors import MissingDependencyError
from plueckernet.extraction.clouds import CLOUD_FORMATS, point_chunks, read_points
from plueckernet.extraction.extracted import ExtractedLines
from plueckernet.extraction.rgbd import Intrinsics, RgbdSettings, extract_rgbd

if TYPE_CHECKING:
    from plueckernet.extraction.point_cloud import PointCloudSettings, extract_lines

__all__ = [
    "CLOUD_FORMATS",
    "ExtractedLines",
    "Intrinsics",
    "PointCloudSettings",
    "RgbdSettings",
    "extract_lines",
    "extract_rgbd",
    "point_chunks",
    "read_points",
]


def __getattr__(name: str) -> Any:
    if name not in ("PointCloudSettings", "extract_lines"):
        raise AttributeError(f"module 'plueckernet.extraction' has no attribute {name!r}")
    try:
        from plueckernet.extraction import point_cloud
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "scipy":
            raise
        raise MissingDependencyError("scipy", "extract") from error
    return getattr(point_cloud, name)
