"""All settings of a registration."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from plueckernet.estimation.candidates import CandidateSettings
from plueckernet.estimation.hypotheses import HypothesisSettings
from plueckernet.estimation.judgement import JudgementSettings
from plueckernet.estimation.maps import MapPair, ThresholdSettings, normalize_maps
from plueckernet.estimation.noise import KnownNoise
from plueckernet.estimation.observability import ObservabilitySettings
from plueckernet.estimation.pose_family import FamilySettings
from plueckernet.estimation.refinement import RefinementSettings
from plueckernet.estimation.verification import VerificationSettings
from plueckernet.geometry.lines import LineSet
from plueckernet.settings import check_at_least, check_positive


@dataclass(frozen=True)
class RegistrationSettings:
    """The defaults suit most maps; lengths are in the unit of the maps unless a comment says otherwise."""

    directed: bool = False  # whether the direction of a line is meaningful
    inlier_distance: float | None = None  # inlier threshold of the distance of two lines; None: derived from the maps
    inlier_angle: float = 8.0  # inlier threshold of the angle of two lines, degrees
    position_noise: float | None = None  # one sigma of a line's position; None: estimated
    direction_noise: float | None = None  # one sigma of its direction, degrees; None: estimated
    max_lines: int = 1000  # of each map that are matched and verified: the longest; all are refined on
    first_lines: int = 150  # of each map that are matched first: the longest; often they suffice
    max_matches: int = 800  # putative matches
    threshold: ThresholdSettings = field(default_factory=ThresholdSettings)
    hypotheses: HypothesisSettings = field(default_factory=HypothesisSettings)
    verification: VerificationSettings = field(default_factory=VerificationSettings)
    candidates: CandidateSettings = field(default_factory=CandidateSettings)
    refinement: RefinementSettings = field(default_factory=RefinementSettings)
    family: FamilySettings = field(default_factory=FamilySettings)
    observability: ObservabilitySettings = field(default_factory=ObservabilitySettings)
    judgement: JudgementSettings = field(default_factory=JudgementSettings)

    def __post_init__(self) -> None:
        check_positive(self, "inlier_distance", "inlier_angle", "position_noise", "direction_noise")
        check_at_least(self, 3, "max_lines", "first_lines")
        check_at_least(self, 2, "max_matches")

    def normalize(self, source: LineSet, target: LineSet) -> MapPair:
        """Both maps in the normalized frame, with the inlier threshold of these settings."""
        return normalize_maps(
            source,
            target,
            max_lines=self.max_lines,
            inlier_distance=self.inlier_distance,
            inlier_angle=math.radians(self.inlier_angle),
            directed=self.directed,
            threshold=self.threshold,
        )

    def known_noise(self, maps: MapPair) -> KnownNoise:
        """The given noise in normalized units."""
        position = None if self.position_noise is None else self.position_noise / maps.unit
        direction = None if self.direction_noise is None else math.radians(self.direction_noise)
        return KnownNoise(position, direction)
