"""Lines, rigid motions and the functions that relate them: torch only, batched, float64 by default."""

from plueckernet.geometry.lines import LineSet, join_lines, stack_lines
from plueckernet.geometry.pose import Pose, Similarity

__all__ = ["LineSet", "Pose", "Similarity", "join_lines", "stack_lines"]
