"""Lines from what sensors deliver: point clouds and RGB-D images."""

from plueckernet.extraction.extracted import ExtractedLines
from plueckernet.extraction.point_cloud import PointCloudSettings, extract_lines
from plueckernet.extraction.rgbd import Intrinsics, RgbdSettings, extract_rgbd

__all__ = ["ExtractedLines", "Intrinsics", "PointCloudSettings", "RgbdSettings", "extract_lines", "extract_rgbd"]
