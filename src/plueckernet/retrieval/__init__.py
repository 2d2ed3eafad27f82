"""Where a part lies in a large map, and which of many maps overlap, from pairs of neighbouring lines."""

from plueckernet.retrieval.line_index import LineIndex
from plueckernet.retrieval.map_overlap import candidate_pairs, overlap_scores
from plueckernet.retrieval.votes import VotedPlace

__all__ = ["LineIndex", "VotedPlace", "candidate_pairs", "overlap_scores"]
