"""All settings of a registration."""

from __future__ import annotations

import math
import pickle
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.candidates import CandidateSettings
from plueckernet.estimation.hypotheses import HypothesisSettings
from plueckernet.estimation.judgement import JudgementSettings
from plueckernet.estimation.maps import MapPair, ThresholdSettings, normalize_maps
from plueckernet.estimation.noise import KnownNoise
from plueckernet.estimation.observability import ObservabilitySettings
from plueckernet.estimation.pose_family import FamilySettings
from plueckernet.estimation.refinement import RefinementSettings
from plueckernet.estimation.verification import VerificationSettings
from plueckernet.geometry.arrays import ArrayLike, as_floats
from plueckernet.geometry.lines import LineSet
from plueckernet.settings import check_at_least, check_positive


def direction(vector: ArrayLike) -> tuple[float, float, float]:
    """Three numbers as a tuple; anything else raises :class:`InputError`."""
    x, y, z = as_floats(vector, "up", (3,)).double().tolist()
    if not 0 < math.hypot(x, y, z) < math.inf:
        raise InputError(f"up: expected a direction, got ({x:g}, {y:g}, {z:g})")
    return x, y, z


@dataclass(frozen=True)
class RoundSettings:
    """How many poses are proposed in a round, and how many of them pass each step."""

    hypotheses: HypothesisSettings = field(default_factory=HypothesisSettings)
    candidates: CandidateSettings = field(default_factory=CandidateSettings)


# Of the longest lines. It ends the search only where it is clear, and there few poses suffice.
_FIRST_LOOK = RoundSettings(
    HypothesisSettings(draws=300, partners=2),
    CandidateSettings(max_distinct=128, max_verified=36, max_polished=8, certain_candidates=1),
)


# Where the first rounds were not clear: of maps with little in common, a right pose may be far down the list.
_CLOSER_LOOK = CandidateSettings(
    max_distinct=6000,
    max_verified=400,
    max_polished=60,
    max_candidates=20,
    min_candidate_score_ratio=0.2,
    by_shared_volume=True,
)


@dataclass(frozen=True)
class RegistrationSettings:
    """The defaults suit most maps; lengths are in the unit of the maps unless a comment says otherwise."""

    directed: bool = False  # whether the direction of a line is meaningful
    inlier_distance: float | None = None  # inlier threshold of the distance of two lines; None: derived from the maps
    inlier_angle: float = 8.0  # inlier threshold of the angle of two lines, degrees
    position_noise: float | None = None  # one sigma of a line's position; None: estimated
    direction_noise: float | None = None  # one sigma of its direction, degrees; None: estimated
    coarser: float = 2.0  # factor of derived inlier thresholds for one more search where none is accepted; 1: none
    max_lines: int = 1000  # of each map that are matched and verified: the longest; all are refined on
    first_lines: int = 128  # of each map that are matched first: the longest; often they suffice
    max_matches: int = 800  # putative matches
    up: tuple[float, float, float] | None = None  # the vertical of both maps; None: any rotation is searched for
    threshold: ThresholdSettings = field(default_factory=ThresholdSettings)
    hypotheses: HypothesisSettings = field(default_factory=HypothesisSettings)
    verification: VerificationSettings = field(default_factory=VerificationSettings)
    candidates: CandidateSettings = field(default_factory=CandidateSettings)
    first_look: RoundSettings = _FIRST_LOOK  # the round with the longest lines only
    closer_look: CandidateSettings = _CLOSER_LOOK  # at the poses of all rounds, where the first were not clear
    refinement: RefinementSettings = field(default_factory=RefinementSettings)
    family: FamilySettings = field(default_factory=FamilySettings)
    observability: ObservabilitySettings = field(default_factory=ObservabilitySettings)
    judgement: JudgementSettings = field(default_factory=JudgementSettings)

    def __post_init__(self) -> None:
        check_positive(self, "inlier_distance", "inlier_angle", "position_noise", "direction_noise")
        check_at_least(self, 3, "max_lines", "first_lines")
        check_at_least(self, 2, "max_matches")
        check_at_least(self, 1, "coarser")
        if self.up is not None:
            direction(self.up)

    def as_dict(self) -> dict[str, Any]:
        """A copy as nested dictionaries, which may be changed."""
        copy: dict[str, Any] = pickle.loads(self._pickled)  # ten times faster than `asdict`
        return copy

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(asdict(self))

    def coarser_than(self, maps: MapPair) -> RegistrationSettings | None:
        """With a wider inlier threshold than that of these maps; None where the threshold was given."""
        if self.coarser == 1 or self.inlier_distance is not None:
            return None
        distance = self.coarser * float(maps.unit) * maps.threshold.distance
        return replace(self, inlier_distance=distance, inlier_angle=self.coarser * self.inlier_angle)

    def vertical(self, maps: MapPair) -> Float[Tensor, "3"] | None:
        """The unit vector of the vertical on the device of the maps; None where it is not known."""
        if self.up is None:
            return None
        return torch.nn.functional.normalize(maps.target_offset.new_tensor(self.up), dim=0)

    @property
    def constrained_refinement(self) -> RefinementSettings:
        """The settings of the refinement with the motions that are allowed."""
        if self.up is None:
            return self.refinement
        length = math.hypot(*self.up)
        x, y, z = (value / length for value in self.up)
        return replace(self.refinement, up=(x, y, z))

    @property
    def usual_round(self) -> RoundSettings:
        """The settings of a round with all lines."""
        return RoundSettings(self.hypotheses, self.candidates)

    @property
    def first_round(self) -> RoundSettings:
        """Those of the longest lines; where the vertical is known, poses are few anyway."""
        return self.first_look if self.up is None else self.usual_round

    def constrained(self, candidates: CandidateSettings) -> CandidateSettings:
        """How many candidates are refined: half where the vertical is known, because fewer wrong poses are as good."""
        if self.up is None:
            return candidates
        return replace(candidates, max_candidates=-(-candidates.max_candidates // 2))

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
