"""Synthetic scenes, and the protocols that make pairs of line maps from them."""

from plueckernet.data.indoor import HouseStyle, indoor_scene
from plueckernet.data.outdoor import TownStyle, outdoor_scene
from plueckernet.data.protocols import (
    AnyProtocol,
    LinePair,
    Noise,
    PairProtocol,
    PaperProtocol,
    ScanProtocol,
    sample_pair,
    sample_pairs,
    unrelated_pair,
)
from plueckernet.data.scan import Survey
from plueckernet.data.scenes import SCENES, make_scene

__all__ = [
    "SCENES",
    "AnyProtocol",
    "HouseStyle",
    "LinePair",
    "Noise",
    "PairProtocol",
    "PaperProtocol",
    "ScanProtocol",
    "Survey",
    "TownStyle",
    "indoor_scene",
    "make_scene",
    "outdoor_scene",
    "sample_pair",
    "sample_pairs",
    "unrelated_pair",
]
