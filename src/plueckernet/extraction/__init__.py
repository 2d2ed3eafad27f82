"""Lines from what sensors deliver: point clouds and RGB-D images."""

from plueckernet.extraction.clouds import CLOUD_FORMATS, point_chunks, read_points
from plueckernet.extraction.extracted import ExtractedLines
from plueckernet.extraction.point_cloud import PointCloudSettings, extract_lines
from plueckernet.extraction.rgbd import Intrinsics, RgbdSettings, extract_rgbd

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
