"""What a registration says: the pose, what it rests on, how far off it may be, and whether to believe it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.judgement import Evidence, Status
from plueckernet.geometry.pose import Pose, skew
from plueckernet.io.atomic import atomic_write
from plueckernet.version import __version__

SCHEMA = 1  # of the JSON; raised when a key changes its meaning or goes


@dataclass(frozen=True, eq=False)
class Alternative:
    """Another pose that was considered to the end."""

    target_T_source: Pose
    score: float  # lines explained, as in `RegistrationResult.score`


@dataclass(frozen=True, eq=False)
class RegistrationResult:
    """The outcome of :func:`plueckernet.register`.

    A failed registration has no pose: ``target_T_source`` and ``covariance`` are None, and the pose that came
    closest is the first of ``alternatives``.
    """

    status: Status
    reason: str
    target_T_source: Pose | None
    covariance: Float[Tensor, "6 6"] | None  # of xi = (omega, tau), rad and map units; see `covariance_at`
    confidence: float  # share of results like this one that are right
    evidence: Evidence  # what the status and the confidence were reached from
    matches: Int[Tensor, "k 2"]  # putative (source, target) rows that the pose was found from
    inliers: Int[Tensor, "i 2"]  # (source, target) rows that lie on each other under the pose
    residuals: Float[Tensor, "i 2"]  # of the inliers: distance in map units, angle in degrees
    alternatives: tuple[Alternative, ...]
    score: float  # lines of either map that the pose explains, mean of both
    noise: tuple[float, float]  # position in map units and direction in degrees, one sigma, as estimated
    timings: dict[str, float]  # seconds by stage
    settings: dict[str, Any]
    seed: int
    num_lines: tuple[int, int]  # source, target
    centre: Float[Tensor, "3"] | None = field(default=None)  # middle of the inliers in the target frame

    @classmethod
    def without_pose(
        cls, reason: str, num_lines: tuple[int, int], settings: dict[str, Any], seed: int
    ) -> RegistrationResult:
        """The result for maps that could not even be tried."""
        none = torch.zeros(0, 2, dtype=torch.long)
        evidence = Evidence.nothing(num_lines)
        return RegistrationResult(
            Status.FAILED, reason, None, None, 0.0, evidence, none, none, none.double(), (), 0.0, (0.0, 0.0), {},
            settings, seed, num_lines,
        )  # fmt: skip

    @property
    def ok(self) -> bool:
        """Whether the status is success."""
        return self.status is Status.SUCCESS

    def covariance_at(self, point: Float[Tensor, "3"]) -> Float[Tensor, "6 6"]:
        """Covariance of the rotation and of the displacement of ``point``, given in the target frame.

        ``covariance`` is that of ``exp(xi) @ target_T_source``: its translation part is the displacement of the
        target frame's origin, large when that is far away. A point ``x`` moves by ``tau + omega x x`` instead.
        """
        if self.covariance is None:
            raise ValueError("a failed registration has no covariance")
        change = torch.eye(6, dtype=self.covariance.dtype, device=self.covariance.device)
        change[3:, :3] = -skew(point.to(self.covariance))
        return change @ self.covariance @ change.mT

    def sigmas(self) -> tuple[float, float] | None:
        """One sigma of the rotation (degrees) and of the position at the middle of the inliers, over all axes."""
        if self.covariance is None or self.centre is None:
            return None
        spread = self.covariance_at(self.centre).diagonal()
        return math.degrees(float(spread[:3].sum().sqrt())), float(spread[3:].sum().sqrt())

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it; docs/result.md describes the schema."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "status": str(self.status),
            "reason": self.reason,
            "confidence": self.confidence,
            "evidence": asdict(self.evidence),
            "target_T_source": None if self.target_T_source is None else self.target_T_source.matrix().tolist(),
            "covariance": None if self.covariance is None else self.covariance.tolist(),
            "sigmas": self.sigmas(),
            "num_lines": list(self.num_lines),
            "num_matches": len(self.matches),
            "num_inliers": len(self.inliers),
            "score": self.score,
            "noise": list(self.noise),
            "matches": self.matches.tolist(),
            "inliers": self.inliers.tolist(),
            "residuals": self.residuals.tolist(),
            "alternatives": [
                {"target_T_source": one.target_T_source.matrix().tolist(), "score": one.score}
                for one in self.alternatives
            ],
            "timings": self.timings,
            "settings": self.settings,
            "seed": self.seed,
        }

    def save(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON; a file that was there stays whole if writing fails."""
        with atomic_write(path) as stream:
            stream.write(json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")
