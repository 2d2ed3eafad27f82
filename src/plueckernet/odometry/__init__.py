"""Odometry from lines: trajectory, map and drift."""

from plueckernet.odometry.drift import (
    KittiError,
    RelativeError,
    absolute_error,
    kitti_error,
    relative_error,
    relative_errors,
)
from plueckernet.odometry.line_map import LineMap
from plueckernet.odometry.tracking import OdometryResult, OdometrySettings, Step, Tracking, track

__all__ = [
    "KittiError",
    "LineMap",
    "OdometryResult",
    "OdometrySettings",
    "RelativeError",
    "Step",
    "Tracking",
    "absolute_error",
    "kitti_error",
    "relative_error",
    "relative_errors",
    "track",
]
