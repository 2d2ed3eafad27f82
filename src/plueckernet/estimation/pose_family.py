r"""All poses that explain two maps as well as the best pose does.

If ``g`` is a symmetry of the source and ``h`` of the target, then ``h T g`` explains the maps about as well as ``T``.
Starting from the best pose and from other candidates, poses are composed with the symmetries of both maps and with the
motions between members, ``T_k T_1^-1`` on the target's side and ``T_1^-1 T_k`` on the source's. Every new pose is
verified on both maps.

Crops of a repeating structure overlap less under some members than under others: they explain fewer lines, but as
large a fraction of those expected. The score prefers the largest overlap, which need not be the true one. Poses that
a symmetry of a map gives are therefore members by their explained fraction, and so are firm runner-ups: other
candidates that so many lines hold in all directions that the place must repeat itself, as mirrored flats do. The more
lines hold one, the more it may leave unexplained. All others are members by their score only. A pose that leaves many
more lines unexplained than chance would is no member, however small their fraction: two percent of a drawing of a house
are its doors. A candidate that explains as many lines as the best, but less of those expected, has been refined and
compared with it: a smaller deficit excludes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.distinct import close_to_any, distinct_poses
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.symmetric_motions import SymmetrySettings
from plueckernet.estimation.symmetry import polished_on_maps, self_symmetries
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.pose import Pose, joined
from plueckernet.settings import check_at_least, check_fraction, check_positive

PROMOTED_MEMBER = 0.75  # of the limits of a member, that a new pose must reach before it is polished
SYMMETRY_FRACTION_RATIO = 0.9  # of the explained fraction of the best pose, that a symmetry of a map explains of it
MIN_SYMMETRY_FRACTION = 0.5  # explained, of a symmetry of any map
_MAX_NEW = 512  # poses of one round that are verified: twice the largest family


@dataclass(frozen=True)
class FamilySettings:
    """Which poses explain the maps as well as the best one."""

    min_score_ratio: float = 0.9  # of the best score
    min_fraction_ratio: float = 0.85  # of the best explained fraction, of poses by a symmetry
    min_explained_ratio: float = 0.5  # of the explained lines of the best pose, of the same
    max_deficit: float = 4.0  # standard deviations of the number of explained lines, of the same
    max_candidate_deficit: float = 2.0  # the same of candidates that are members by their score
    max_runner_up_deficit: float = 1.5  # the same of firm runner-ups
    max_repetition_deficit: float = 3.0  # the same of those that show that the place repeats itself
    max_members: int = 256
    rounds: int = 4  # of composing members with symmetries
    symmetry: SymmetrySettings = field(default_factory=SymmetrySettings)

    def __post_init__(self) -> None:
        check_fraction(self, "min_score_ratio", "min_fraction_ratio", "min_explained_ratio")
        check_at_least(self, 1, "max_members", "rounds")
        check_positive(self, "max_deficit", "max_candidate_deficit", "max_runner_up_deficit", "max_repetition_deficit")

    @property
    def of_candidates(self) -> _Limits:
        """The limits of other candidates."""
        return _Limits(self.min_score_ratio, self.max_candidate_deficit)

    @property
    def of_runner_ups(self) -> _Limits:
        """Those of candidates that many lines hold."""
        return replace(self.of_candidates, fraction=0.0, deficit=self.max_runner_up_deficit)

    @property
    def of_repetitions(self) -> _Limits:
        """Those of candidates that so many lines hold that the place repeats itself."""
        limit = self.max_repetition_deficit
        return replace(self.of_runner_ups, score_deficit=limit, deficit=limit)

    @property
    def of_symmetries(self) -> _Limits:
        """Those of poses that a symmetry of a map gives."""
        return _Limits(
            self.min_score_ratio,
            self.max_deficit,
            self.min_fraction_ratio,
            self.min_explained_ratio,
            self.max_deficit,
            PROMOTED_MEMBER,
        )

    def symmetry_limits(self, explained_fraction: float) -> SymmetrySettings:
        """Noise lowers the fraction that a symmetry explains as much as that of the best pose."""
        fraction = min(
            self.symmetry.min_explained_fraction,
            max(SYMMETRY_FRACTION_RATIO * explained_fraction, MIN_SYMMETRY_FRACTION),
        )
        return replace(self.symmetry, min_explained_fraction=fraction)


@dataclass(frozen=True, eq=False)
class PoseFamily:
    """Distinct poses that explain the maps about equally well: the given best pose first, then by score."""

    poses: Pose  # (k,)
    score_ratio: Float[Tensor, " k"]  # of the score of the first
    fraction_ratio: Float[Tensor, " k"]  # of the explained fraction of the first
    source_symmetries: Pose  # (s,)
    target_symmetries: Pose  # (t,)

    def __len__(self) -> int:
        return len(self.score_ratio)


def pose_family(
    best: Pose,
    others: Pose,
    maps: MapPair,
    scorer: MapScorer,
    settings: FamilySettings = FamilySettings(),
    runner_ups: Pose | None = None,
    repetitions: Pose | None = None,
) -> PoseFamily:
    """All distinct poses that explain the cores of both maps as well as ``best`` does, up to ``max_members``.

    ``others`` is a batch of poses that may be members and whose motions from the best pose may be symmetries. Those of
    them that many lines hold firmly are ``runner_ups``, and those that so many hold that the place repeats itself are
    ``repetitions``.
    """
    first = Pose(best.rotation[None], best.translation[None])
    search = _FamilySearch(first, maps, scorer, settings)
    limits = settings.symmetry_limits(search.explained_fraction)
    inverse = first.inverse()
    inner_motions, outer_motions = inverse @ others, others @ inverse
    source = self_symmetries(maps.source, maps.threshold, limits, inner_motions, scorer.against_itself(0))
    target = self_symmetries(maps.target, maps.threshold, limits, outer_motions, scorer.against_itself(1))
    for poses, firm in ((runner_ups, settings.of_runner_ups), (repetitions, settings.of_repetitions)):
        if poses is not None:
            search.extend(poses, firm)
    search.extend(others, settings.of_candidates)
    frontier = search.members
    outer, inner = joined(target, frontier[1:] @ inverse), joined(source, inverse @ frontier[1:])
    for _ in range(settings.rounds):
        if not outer.rotation.shape[0] + inner.rotation.shape[0]:
            break
        frontier = search.extend(joined(_composed(outer, frontier), _composed(frontier, inner)), settings.of_symmetries)
        if not frontier.rotation.shape[0] or len(search.score_ratio) >= settings.max_members:
            break
    order = torch.cat([search.score_ratio.new_full((1,), torch.inf), search.score_ratio[1:]])
    order = order.argsort(descending=True, stable=True)[: settings.max_members]
    ratios = search.score_ratio[order], search.fraction_ratio[order]
    return PoseFamily(search.members[order], *ratios, source, target)


@dataclass(frozen=True)
class _Limits:
    """What makes a pose a member, beside the first one."""

    score: float  # ratio from which on a pose is a member, whatever fraction it explains
    score_deficit: float  # of such a pose at most
    fraction: float = math.inf  # ratio from which on others are members
    explained: float = 0.0  # ratio of the number of lines, of the same
    deficit: float = math.inf  # of the same at most
    promoted: float | None = None  # of these limits, that a pose must reach to be polished; None: poses are refined

    def reached(self, ratios: Float[Tensor, "4 h"], ease: float = 1.0) -> Bool[Tensor, " h"]:
        """Whether score, fraction, lines and deficit suffice for the limits times ``ease``."""
        (score, fraction, explained), deficit = ratios[:3] / ease, ratios[3] * ease
        by_fraction = (fraction >= self.fraction) & (explained >= self.explained) & (deficit <= self.deficit)
        return torch.where(score >= self.score, deficit <= self.score_deficit, by_fraction)


class _FamilySearch:
    """The members so far; the others are compared with the first."""

    def __init__(self, first: Pose, maps: MapPair, scorer: MapScorer, settings: FamilySettings) -> None:
        self.members, self._known = first, first
        self._maps, self._scorer, self._settings = maps, scorer, settings
        self._first = scorer.explained(first)
        self._score = scorer.score(self._first)
        self.score_ratio, self.fraction_ratio = torch.ones_like(self._score), torch.ones_like(self._score)

    @property
    def explained_fraction(self) -> float:
        """Of the first member."""
        return float(self._first.fraction)

    def extend(self, poses: Pose, limits: _Limits) -> Pose:
        """Add those poses that are new and explain the maps as well as the first; return them."""
        if poses.rotation.shape[0]:
            poses = self._unknown(poses, self._known)
        if not poses.rotation.shape[0]:
            return poses
        ratios = self._ratios(poses)
        member = limits.reached(ratios)
        if limits.promoted is None:  # one that is no member may still be one by a symmetry
            return self._added(poses[member], ratios[:, member])
        self._known = joined(self._known, poses)
        close = limits.reached(ratios, limits.promoted) & ~member
        if bool(close.any()):  # the others are good enough to be refined
            polished = polished_on_maps(poses[close], self._maps.source, self._maps.target, self._maps.threshold)
            poses, ratios = joined(poses[member], polished), torch.cat([ratios[:, member], self._ratios(polished)], 1)
            member = limits.reached(ratios)
        return self._added(poses[member], ratios[:, member])

    def _added(self, poses: Pose, ratios: Float[Tensor, "4 h"]) -> Pose:
        """The poses that are distinct from all members, now members themselves."""
        new = self._distinct(poses, self.members)
        self.members, self._known = joined(self.members, poses[new]), joined(self._known, poses[new])
        self.score_ratio = torch.cat([self.score_ratio, ratios[0, new]])
        self.fraction_ratio = torch.cat([self.fraction_ratio, ratios[1, new]])
        return poses[new]

    def _ratios(self, poses: Pose) -> Float[Tensor, "4 h"]:
        """Score, explained fraction and explained lines, over those of the first member; and the deficit."""
        explained = self._scorer.explained(poses)
        fraction = explained.fraction / max(self.explained_fraction, 1e-6)
        score = self._scorer.score(explained) / self._score.clamp_min(1e-6)
        lines = explained.lines / self._first.lines.clamp_min(1e-6)
        return torch.stack([score, fraction, lines, explained.deficit(self.explained_fraction)])

    def _unknown(self, poses: Pose, known: Pose) -> Pose:
        return poses[self._distinct(poses, known)[:_MAX_NEW]]

    def _distinct(self, poses: Pose, known: Pose) -> Int[Tensor, " k"]:
        """Rows of poses that are distinct from each other and from the known ones, in their order."""
        threshold = self._maps.threshold
        rows = (~close_to_any(poses, known, threshold)).nonzero()[:, 0]
        rank = -rows.to(poses.rotation.dtype) + poses.rotation.shape[0]
        return rows[distinct_poses(poses[rows], rank, threshold, len(rows))]


def _composed(left: Pose, right: Pose) -> Pose:
    """Every pose of the first batch with every pose of the second."""
    product = Pose(left.rotation[:, None], left.translation[:, None]) @ right
    return Pose(product.rotation.flatten(0, 1), product.translation.flatten(0, 1))
