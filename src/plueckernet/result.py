"""The outcome of a registration: pose, covariance, confidence, evidence; and its JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.coincidence import pair_distances
from plueckernet.errors import FormatError
from plueckernet.estimation.assessment import AssessedCandidate, Assessment
from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import Status, Verdict
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.observability import UnobservableMotion
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry.arrays import ArrayLike, as_floats
from plueckernet.geometry.describing import table_html
from plueckernet.geometry.pose import Pose, Similarity, skew
from plueckernet.geometry.similarity import Transform
from plueckernet.io.atomic import atomic_write
from plueckernet.io.files import read_json
from plueckernet.version import __version__

SCHEMA = 2  # of the JSON; raised when a key changes its meaning or is removed
# Keys of schema 1 that schema 2 renamed.
_EVIDENCE_OF_SCHEMA_1 = {
    "inliers": "inliers",
    "rival": "runner_up_ratio",
    "borne_out": "explained_fraction",
    "held": "lateral_support",
    "agreement": "matcher_agreement",
}
_SETTINGS_OF_SCHEMA_1 = {"position_tolerance": "inlier_distance", "angle_tolerance": "inlier_angle"}
_ASSUMED_RUNNER_UP_OF_SCHEMA_1 = 0.7  # what schema 1 wrote where no other pose was found


_LOST_DIGITS = 1e-13  # of a variance, relative to that about the origin: below it, rounding decides


@dataclass(frozen=True, eq=False)
class Alternative:
    """Another pose that was refined."""

    target_T_source: Transform
    confidence: float  # probability that this pose is right
    evidence: Evidence
    group: int = -1  # poses of one group differ so little that they give the same answer

    @property
    def scale(self) -> float:
        """Target units per source unit; 1 where both maps have the same unit."""
        return float(self.target_T_source.scale) if isinstance(self.target_T_source, Similarity) else 1.0

    @property
    def rigid_pose(self) -> Pose:
        """The motion of the source after it has been multiplied by :attr:`scale`."""
        motion = self.target_T_source
        return motion.pose if isinstance(motion, Similarity) else motion

    @property
    def score(self) -> float:
        """Verification score."""
        return self.evidence.score


@dataclass(frozen=True)
class RunRecord:
    """What a result was computed with."""

    matcher: str
    settings: RegistrationSettings
    seed: int
    seconds: Mapping[str, float] = field(default_factory=dict)  # by stage
    warnings: tuple[str, ...] = ()  # what was noticed about the maps


@dataclass(frozen=True, eq=False, repr=False)
class RegistrationResult:
    """The outcome of :func:`plueckernet.register`.

    The covariance is in radians and in the unit of the target, see :meth:`covariance_at`. A failed registration has no
    pose: ``target_T_source`` and ``covariance`` are None, and the best candidate is the first of ``alternatives``. All
    tensors are on the CPU.
    """

    status: Status
    reason: str
    target_T_source: Transform | None  # a similarity where the scale was searched for
    covariance: Float[Tensor, "d d"] | None  # of xi = (omega, tau), of a similarity (omega, tau, log scale)
    confidence: float  # probability that the pose is right
    calibrated: bool  # whether the confidence was fitted to this matcher
    evidence: Evidence  # from which status and confidence follow
    matches: Int[Tensor, "k 2"]  # putative (source, target) rows
    inliers: Int[Tensor, "i 2"]  # (source, target) rows that coincide under the pose
    residuals: Float[Tensor, "i 2"]  # of the inliers: distance in map units, angle in degrees
    alternatives: tuple[Alternative, ...]
    score: float  # verification score: explained lines times the explained fraction
    noise: tuple[float, float]  # position in map units and direction in degrees, one sigma, as estimated
    timings: dict[str, float]  # seconds by stage
    settings: dict[str, Any]  # with the inlier distance that was used
    seed: int
    num_lines: tuple[int, int]  # source, target
    matcher: str = ""  # name of the matcher
    centre: Float[Tensor, "3"] | None = None  # of the inliers, in the target frame
    group: int = -1  # that of the pose, see `Alternative`
    exchangeable: int = 1  # poses that a symmetry of the maps makes exchangeable, this one included
    unobservable: tuple[UnobservableMotion, ...] = ()  # motions that the inliers leave undetermined
    warnings: tuple[str, ...] = ()  # what was noticed about the maps before the search, in sentences

    @classmethod
    def without_pose(cls, reason: str, num_lines: tuple[int, int], run: RunRecord) -> RegistrationResult:
        """The result for maps that could not be registered at all."""
        rows = torch.zeros(0, 2, dtype=torch.long)
        return RegistrationResult(
            status=Status.FAILED,
            reason=reason,
            target_T_source=None,
            covariance=None,
            confidence=0.0,
            calibrated=True,
            evidence=Evidence.nothing(),
            matches=rows,
            inliers=rows,
            residuals=rows.double(),
            alternatives=(),
            score=0.0,
            noise=(0.0, 0.0),
            timings={},
            settings=run.settings.as_dict(),
            seed=run.seed,
            num_lines=num_lines,
            matcher=run.matcher,
            warnings=run.warnings,
        )

    def __repr__(self) -> str:
        pose = "no pose" if self.target_T_source is None else repr(self.target_T_source)
        return (
            f"RegistrationResult({self.status}, confidence {self.confidence:.3f}, {len(self.inliers)} inliers, {pose})"
        )

    def _repr_html_(self) -> str:
        """A short table, for notebooks."""
        return table_html(repr(self), [("reason", self.reason), *(("warning", text) for text in self.warnings)])

    def __bool__(self) -> bool:
        """The same as :attr:`ok`."""
        return self.ok

    @property
    def ok(self) -> bool:
        """Whether the status is success."""
        return self.status is Status.SUCCESS

    @property
    def scale(self) -> float:
        """Target units per source unit, of the best candidate if no pose was accepted; 1 where both have the same."""
        if self.target_T_source is None and self.alternatives:
            return self.alternatives[0].scale
        return float(self.target_T_source.scale) if isinstance(self.target_T_source, Similarity) else 1.0

    @property
    def rigid_pose(self) -> Pose | None:
        """The motion of the source after it has been multiplied by :attr:`scale`."""
        motion = self.target_T_source
        return motion.pose if isinstance(motion, Similarity) else motion

    def covariance_at(self, point: ArrayLike) -> Float[Tensor, "d d"]:
        """Covariance of the rotation and of the displacement of ``point``, given in the target frame.

        ``covariance`` is that of ``exp(xi) @ target_T_source``: its translation part is the displacement of the
        target frame's origin, large when that is far away. A point ``x`` moves by ``tau + omega x x`` instead.
        Of a similarity it moves by ``sigma x`` more, where ``sigma``, the logarithm of the scale, comes last.
        """
        if self.covariance is None:
            raise ValueError("a failed registration has no covariance")
        change = torch.eye(len(self.covariance), dtype=self.covariance.dtype)
        place = as_floats(point, "point", (3,)).to(self.covariance)
        change[3:6, :3] = -skew(place)
        change[3:6, 6:] = place[:, None]
        return change @ self.covariance @ change.mT

    def sigmas(self) -> tuple[float, float] | None:
        """One sigma of the rotation (degrees) and of the position at the centre of the inliers, over all axes.

        None without a pose, and for coordinates so large that the covariance about their origin has lost its digits.
        """
        if self.covariance is None or self.centre is None:
            return None
        variance = self.covariance_at(self.centre).diagonal()
        lost = _LOST_DIGITS * float(self.covariance.diagonal()[3:6].sum())
        if not (float(variance[:3].sum()) >= 0 and float(variance[3:6].sum()) > lost):
            return None
        return math.degrees(float(variance[:3].sum().sqrt())), float(variance[3:6].sum().sqrt())

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it; docs/result.md describes the schema."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "status": str(self.status),
            "reason": self.reason,
            "warnings": list(self.warnings),
            "confidence": self.confidence,
            "calibrated": self.calibrated,
            "matcher": self.matcher,
            "evidence": asdict(self.evidence),
            "target_T_source": None if self.target_T_source is None else self.target_T_source.matrix().tolist(),
            "scale": self.scale,
            "covariance": None if self.covariance is None else self.covariance.tolist(),
            "centre": None if self.centre is None else self.centre.tolist(),
            "sigmas": self.sigmas(),
            "group": self.group,
            "exchangeable": self.exchangeable,
            "unobservable": [asdict(motion) for motion in self.unobservable],
            "num_lines": list(self.num_lines),
            "num_matches": len(self.matches),
            "num_inliers": len(self.inliers),
            "score": self.score,
            "noise": list(self.noise),
            "matches": self.matches.tolist(),
            "inliers": self.inliers.tolist(),
            "residuals": self.residuals.tolist(),
            "alternatives": [
                {
                    "target_T_source": alternative.target_T_source.matrix().tolist(),
                    "scale": alternative.scale,
                    "confidence": alternative.confidence,
                    "evidence": asdict(alternative.evidence),
                    "group": alternative.group,
                }
                for alternative in self.alternatives
            ],
            "timings": self.timings,
            "settings": self.settings,
            "seed": self.seed,
        }

    def save(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON; an existing file stays whole if writing fails."""
        with atomic_write(path) as stream:
            stream.write(json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> RegistrationResult:
        """Read what :meth:`save` wrote, of schema 1 or 2; anything else raises :class:`FormatError`."""
        try:
            document = read_json(Path(path))
        except FormatError as error:
            raise FormatError(path, f"not a readable result: {error.reason}", error.line) from error
        return cls.from_dict(document, path)

    @classmethod
    def from_dict(cls, document: Any, path: str | Path = "result") -> RegistrationResult:
        """The result of which :meth:`to_dict` made this; an error names ``path``."""
        if not isinstance(document, dict) or document.get("schema") not in (1, SCHEMA):
            raise FormatError(path, f"not a result of schema 1 or {SCHEMA}")
        try:
            return _from_document(document if document["schema"] == SCHEMA else _converted(document))
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, LookupError, OverflowError) as error:
            raise FormatError(path, f"incomplete result: {type(error).__name__} {error}") from error


def assemble_result(
    verdict: Verdict,
    assessment: Assessment,
    unobservable: tuple[UnobservableMotion, ...],
    matches: Matches,
    maps: MapPair,
    run: RunRecord,
) -> RegistrationResult:
    """The result in the frames and the unit of the maps, on the CPU and outside inference mode."""
    rows = maps.core_rows(torch.stack([matches.source, matches.target], -1))
    result = RegistrationResult.without_pose(verdict.reason, (len(maps.all_source), len(maps.all_target)), run)
    result = replace(
        result,
        status=verdict.status,
        confidence=verdict.confidence,
        calibrated=verdict.calibrated,
        evidence=assessment.evidence,
        exchangeable=assessment.members,
        unobservable=unobservable,
        matches=_owned(rows),
        timings=dict(run.seconds),
        settings=result.settings
        | {
            "inlier_distance": maps.threshold.distance * maps.unit,
            "inlier_angle": round(math.degrees(maps.threshold.angle), 9),
        },
    )
    return _with_pose(result, assessment.candidates, maps) if assessment.candidates else result


def _with_pose(
    result: RegistrationResult, candidates: Sequence[AssessedCandidate], maps: MapPair
) -> RegistrationResult:
    """The result with the best candidate and the alternatives; of a failed one, the best is an alternative too."""
    best, failed = candidates[0].refinement, result.status is Status.FAILED
    poses = [_owned_pose(maps.original_pose(candidate.refinement.pose)) for candidate in candidates]
    centre = maps.all_target.anchor[best.matches[:, 1]].mean(0) * maps.unit + maps.target_offset
    first = 0 if failed else 1
    return replace(
        result,
        target_T_source=None if failed else poses[0],
        covariance=None if failed else _owned(maps.original_covariance(best.covariance)),
        inliers=_owned(best.matches),
        residuals=_owned(pair_distances(best.pose, best.matches, maps)),
        alternatives=tuple(
            Alternative(pose, candidate.probability, candidate.evidence, candidate.group)
            for pose, candidate in zip(poses[first:], candidates[first:], strict=True)
        ),
        score=candidates[0].evidence.score,
        group=candidates[0].group,
        noise=(best.noise.position * maps.unit, math.degrees(best.noise.direction)),
        centre=None if failed else _owned(centre),
    )


def with_scale(result: RegistrationResult, scale: float, covariance: Float[Tensor, "7 7"] | None) -> RegistrationResult:
    """The result of maps whose source was multiplied by a scale as that of the maps themselves."""

    def scaled(motion: Transform) -> Similarity:
        return Similarity(torch.full_like(motion.translation[..., 0], scale), motion.rotation, motion.translation)

    pose = result.target_T_source
    return replace(
        result,
        target_T_source=None if pose is None else scaled(pose),
        covariance=None if pose is None or covariance is None else _owned(covariance),
        alternatives=tuple(
            replace(other, target_T_source=scaled(other.target_T_source)) for other in result.alternatives
        ),
    )


def _owned(tensor: Tensor) -> Tensor:
    """A copy on the CPU that is no inference tensor, so that a caller can differentiate through it."""
    return tensor.to("cpu").clone()


def _owned_pose(pose: Pose) -> Pose:
    return Pose(_owned(pose.rotation), _owned(pose.translation))


def _from_document(document: Mapping[str, Any]) -> RegistrationResult:
    def pose(matrix: Any) -> Transform | None:
        return None if matrix is None else _motion(matrix, document.get("scale", 1.0))

    def numbers(values: Any) -> Tensor | None:
        return None if values is None else torch.tensor(values, dtype=torch.float64)

    def rows(values: Any, dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype).reshape(-1, 2)

    return RegistrationResult(
        status=Status(document["status"]),
        reason=document["reason"],
        target_T_source=pose(document["target_T_source"]),
        covariance=numbers(document["covariance"]),
        confidence=document["confidence"],
        calibrated=document["calibrated"],
        evidence=Evidence(**document["evidence"]),
        matches=rows(document["matches"], torch.long),
        inliers=rows(document["inliers"], torch.long),
        residuals=rows(document["residuals"], torch.float64),
        alternatives=tuple(
            Alternative(
                _motion(other["target_T_source"], other.get("scale", 1.0)),
                other["confidence"],
                Evidence(**other["evidence"]),
                other["group"],
            )
            for other in document["alternatives"]
        ),
        score=document["score"],
        noise=(document["noise"][0], document["noise"][1]),
        timings=document["timings"],
        settings=document["settings"],
        seed=document["seed"],
        num_lines=(document["num_lines"][0], document["num_lines"][1]),
        matcher=document["matcher"],
        centre=numbers(document["centre"]),
        group=document["group"],
        exchangeable=document["exchangeable"],
        unobservable=tuple(UnobservableMotion.from_dict(motion) for motion in document["unobservable"]),
        warnings=tuple(document.get("warnings", ())),  # results of version 0.1.0 have none
    )


def _motion(rows: Any, scale: float) -> Transform:
    """Results without a scale, or whose scale is exactly one, are rigid."""
    matrix = torch.tensor(rows, dtype=torch.float64)
    if scale == 1.0:
        return Pose.from_matrix(matrix)
    motion = Similarity.from_matrix(matrix)
    return replace(motion, scale=torch.full_like(motion.scale, scale))


def _converted(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of schema 1 in the words of schema 2; what schema 1 did not record is empty."""
    evidence = asdict(Evidence.nothing()) | {"score": document["score"]}
    evidence |= {new: document["evidence"][old] for old, new in _EVIDENCE_OF_SCHEMA_1.items()}
    if evidence["runner_up_ratio"] == _ASSUMED_RUNNER_UP_OF_SCHEMA_1:
        evidence["runner_up_ratio"] = None
    evidence["matcher_agreement"] = evidence["matcher_agreement"] or 0.0
    alternatives = [
        {
            "target_T_source": other["target_T_source"],
            "confidence": 0.0,
            "evidence": asdict(Evidence.nothing()) | {"score": other["score"]},
            "group": -1,
        }
        for other in document["alternatives"]
    ]
    settings = {_SETTINGS_OF_SCHEMA_1.get(name, name): value for name, value in document["settings"].items()}
    added = {
        "calibrated": False,
        "matcher": "",
        "centre": None,
        "group": -1,
        "exchangeable": 1,
        "unobservable": [],
        "alternatives": alternatives,
    }
    return {**document, **added, "schema": SCHEMA, "evidence": evidence, "settings": settings}
