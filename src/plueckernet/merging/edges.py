"""Edges between maps: what a registration says about the relative pose of two maps, with its alternatives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.judgement import Status
from plueckernet.geometry.arrays import as_floats
from plueckernet.result import RegistrationResult

MIN_CONFIDENCE = 0.01  # of a hypothesis that enters the graph
MAX_HYPOTHESES = 6  # of an edge
_DEFAULT_ANGLE = math.radians(1.0)  # one sigma of a pose whose covariance is not known
_DEFAULT_SCALE = 0.02  # the same of the logarithm of the scale


@dataclass(frozen=True, eq=False)
class EdgeHypothesis:
    """A pose that an edge may have."""

    target_T_source: Float[Tensor, "4 4"]  # of the centred maps
    covariance: Float[Tensor, "7 7"]  # of xi in exp(xi) @ target_T_source; scale last, zero where the graph is rigid
    confidence: float  # probability that this pose is right, by the registration alone


@dataclass(frozen=True, eq=False)
class MapEdge:
    """The registration of two maps. Its hypotheses exclude one another."""

    source: int
    target: int
    status: Status
    reason: str
    confidence: float  # of the best hypothesis
    hypotheses: tuple[EdgeHypothesis, ...] = ()
    inliers: int = 0
    inlier_distance: float = 0.0
    warnings: tuple[str, ...] = ()  # what the registration noticed about the maps

    @classmethod
    def of(cls, source: int, target: int, result: RegistrationResult) -> MapEdge:
        """The edge of a registration. Of a failed one the candidates stay: a cycle may confirm one of them."""
        distance = float(result.settings.get("inlier_distance") or 0.0)
        hypotheses = []
        if result.target_T_source is not None:
            covariance = _seven(result.covariance, distance)
            hypotheses.append(EdgeHypothesis(_matrix(result.target_T_source), covariance, result.confidence))
        groups = {result.group} if hypotheses else set()
        for alternative in result.alternatives:
            if alternative.group >= 0 and alternative.group in groups:
                continue  # the same answer, whose probability is already counted
            groups.add(alternative.group)
            covariance = _seven(None, distance)
            hypotheses.append(EdgeHypothesis(_matrix(alternative.target_T_source), covariance, alternative.confidence))
        probable = [hypothesis for hypothesis in hypotheses if hypothesis.confidence >= MIN_CONFIDENCE]
        probable.sort(key=lambda hypothesis: -hypothesis.confidence)
        return MapEdge(
            source,
            target,
            result.status,
            result.reason,
            result.confidence,
            tuple(probable[:MAX_HYPOTHESES]),
            len(result.inliers),
            distance,
            result.warnings,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the numbers of the maps, which belong to a heap."""
        return {
            "status": str(self.status),
            "reason": self.reason,
            "confidence": self.confidence,
            "inliers": self.inliers,
            "inlier_distance": self.inlier_distance,
            "warnings": list(self.warnings),
            "hypotheses": [
                {
                    "target_T_source": hypothesis.target_T_source.tolist(),
                    "covariance": hypothesis.covariance.tolist(),
                    "confidence": hypothesis.confidence,
                }
                for hypothesis in self.hypotheses
            ],
        }

    @classmethod
    def from_dict(cls, source: int, target: int, document: dict[str, Any]) -> MapEdge:
        """What :meth:`to_dict` wrote."""
        hypotheses = tuple(
            EdgeHypothesis(
                as_floats(entry["target_T_source"], "target_T_source", (4, 4)),
                as_floats(entry["covariance"], "covariance", (7, 7)),
                float(entry["confidence"]),
            )
            for entry in document["hypotheses"]
        )
        return MapEdge(
            source,
            target,
            Status(document["status"]),
            str(document["reason"]),
            float(document["confidence"]),
            hypotheses,
            int(document["inliers"]),
            float(document["inlier_distance"]),
            tuple(document["warnings"]),
        )


def _matrix(motion: Any) -> Float[Tensor, "4 4"]:
    """Of a pose or a similarity."""
    return motion.matrix().to(torch.float64)


def _seven(covariance: Tensor | None, distance: float) -> Float[Tensor, "7 7"]:
    """A covariance with the scale last; without one, that of a pose within about the inlier threshold."""
    if covariance is None:
        sigmas = [_DEFAULT_ANGLE] * 3 + [max(distance, 1e-9)] * 3 + [_DEFAULT_SCALE]
        return torch.tensor(sigmas, dtype=torch.float64).square().diag()
    result = torch.zeros(7, 7, dtype=torch.float64)
    size = len(covariance)
    result[:size, :size] = covariance
    return result
