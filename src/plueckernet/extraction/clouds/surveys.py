"""Clouds as surveyors exchange them: LAS and LAZ, E57."""

from __future__ import annotations

import numpy as np

from plueckernet.errors import MissingDependencyError
from plueckernet.extraction.clouds.chunks import Chunks
from plueckernet.io.source import Source


def recognises_las(source: Source) -> bool:
    """Whether the file starts as LAS and LAZ do."""
    return source.head.startswith(b"LASF")


def read_las(source: Source, size: int) -> Chunks:
    """The points, with the file's scale and offset, ``size`` at a time."""
    try:
        import laspy
    except ImportError:
        raise MissingDependencyError("laspy", "extract") from None
    try:
        with laspy.open(source.path) as reader:
            for points in reader.chunk_iterator(size):
                yield np.stack([points.x, points.y, points.z], axis=1).astype(np.float64)
    except laspy.errors.LaspyException as error:
        if "Backend" in str(error):  # LAZ without a package that decompresses it
            raise MissingDependencyError("lazrs", "extract") from None
        raise source.error(f"not readable as LAS or LAZ: {error}") from None
    except (ValueError, RuntimeError) as error:
        raise source.error(f"not readable as LAS or LAZ: {error}") from None


def recognises_e57(source: Source) -> bool:
    """Whether the file starts as E57 does."""
    return source.head.startswith(b"ASTM-E57")


def read_e57(source: Source, size: int) -> Chunks:
    """The points of all scans in the common frame; a scan is read whole."""
    try:
        import pye57
    except ImportError:
        raise MissingDependencyError("pye57", "extract") from None
    try:
        file = pye57.E57(str(source.path))
        for scan in range(file.scan_count):
            data = file.read_scan(scan, ignore_missing_fields=True)
            points = np.stack([data[f"cartesian{axis}"] for axis in "XYZ"], axis=1).astype(np.float64)
            for start in range(0, len(points), size):
                yield points[start : start + size]
    except (RuntimeError, ValueError, KeyError, pye57.libe57.E57Exception) as error:
        raise source.error(f"not readable as E57: {error}") from None
