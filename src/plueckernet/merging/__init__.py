"""Many maps in one frame: which of them overlap, their poses, the merged map, ties to world coordinates."""

from plueckernet.merging.aligning import AlignSettings, align
from plueckernet.merging.alignment import AlignedCycle, AlignedEdge, AlignedGroup, Alignment
from plueckernet.merging.control import ControlPoint, WorldTie, fit_world, read_control_points
from plueckernet.merging.exports import g2o_text, to_gtsam
from plueckernet.merging.fusion import FusionSettings, MergedMap, merge_group
from plueckernet.merging.output import georeference, write_alignment

__all__ = [
    "AlignSettings",
    "AlignedCycle",
    "AlignedEdge",
    "AlignedGroup",
    "Alignment",
    "ControlPoint",
    "FusionSettings",
    "MergedMap",
    "WorldTie",
    "align",
    "fit_world",
    "g2o_text",
    "georeference",
    "merge_group",
    "read_control_points",
    "to_gtsam",
    "write_alignment",
]
