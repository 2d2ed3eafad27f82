"""Many maps in one frame: which of them overlap, their poses, the merged map, ties to world coordinates."""

from plueckernet.merging.aligning import AlignSettings, align
from plueckernet.merging.alignment import AlignedCycle, AlignedEdge, AlignedGroup, Alignment

__all__ = ["AlignSettings", "AlignedCycle", "AlignedEdge", "AlignedGroup", "Alignment", "align"]
