"""From the tensors of a batch to the candidates of each pair of maps, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.assessment import Assessment, assess
from plueckernet.estimation.batched.look import LookedAt
from plueckernet.estimation.evidence import MATCH_EVIDENCE, Evidence, compared
from plueckernet.estimation.hull import VOLUME_EVIDENCE
from plueckernet.estimation.judgement import Calibration
from plueckernet.estimation.refinement import RefinedCandidate, Refinement
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel


@dataclass(frozen=True, eq=False)
class AssessedPair:
    """The candidates of one pair of maps."""

    assessment: Assessment
    columns: list[int]  # of each candidate in the batch, the most probable first


def assessed_pairs(
    looked_at: LookedAt, counts: Sequence[tuple[int, int]], calibration: Calibration
) -> list[AssessedPair]:
    """The candidates of each pair with their evidence and probabilities; ``looked_at`` is on the CPU."""
    along = torch.linalg.eigvalsh(looked_at.directions)[..., -1]
    lateral = (looked_at.inliers - along).clamp_min(0).tolist()
    names = ["mask", "score", "stand_out", "chance_lines", "explained_fraction", "source_explained", "target_explained"]
    names += ["expected_source", "expected_target", "rotation_deviation", "inliers", "whole_lines"]
    names += [*VOLUME_EVIDENCE, *MATCH_EVIDENCE]
    values: dict[str, Any] = {name: getattr(looked_at, name).tolist() for name in names}
    values |= {"lateral": lateral, "crowd": looked_at.crowd.tolist()}
    poses = looked_at.poses
    return [
        _assessed({name: value[row] for name, value in values.items()}, poses[row], counts[row], calibration)
        for row in range(len(counts))
    ]


def _assessed(
    values: dict[str, Any], poses: Pose, counts: tuple[int, int], calibration: Calibration
) -> AssessedPair:  # fmt: skip
    columns = [column for column, use in enumerate(values["mask"]) if use]
    columns.sort(key=lambda column: -values["score"][column])
    scores = [values["score"][column] for column in columns]
    evidence, refined = [], []
    smaller = "source" if counts[0] < counts[1] else "target"
    for row, column in enumerate(columns):
        evidence.append(
            Evidence(
                inliers=values["inliers"][column],
                score=scores[row],
                explained_fraction=values["explained_fraction"][column],
                source_explained=values["source_explained"][column],
                target_explained=values["target_explained"][column],
                smaller_explained=values[f"{smaller}_explained"][column],
                smaller_expected=values[f"expected_{smaller}"][column],
                stand_out=values["stand_out"][column],
                chance_lines=values["chance_lines"][column],
                crowd_ratio=0.0,
                runner_up_ratio=None,
                deficit=0.0,
                lateral_support=values["lateral"][column],
                whole_lines=values["whole_lines"][column],
                rotation_deviation=values["rotation_deviation"][column],
                **{name: values[name][column] for name in (*VOLUME_EVIDENCE, *MATCH_EVIDENCE)},
            )
        )
        refinement = _only_pose(poses[column])
        refined.append(
            RefinedCandidate(scores[row], values["stand_out"][column], values["chance_lines"][column], refinement)
        )
    assessment = assess(refined, compared(evidence, values["crowd"]), calibration)
    places = [refined.index(entry.candidate) for entry in assessment.candidates]
    return AssessedPair(assessment, [columns[place] for place in places])


def _only_pose(pose: Pose) -> Refinement:
    """A refinement of which only the pose is used: its matches are counted already."""
    return Refinement(pose, _NO_COVARIANCE, _NO_ROWS, NoiseModel(), False)


_NO_COVARIANCE: Float[Tensor, "6 6"] = torch.zeros(6, 6, dtype=torch.float64)
_NO_ROWS: Int[Tensor, "0 2"] = torch.zeros(0, 2, dtype=torch.long)
