"""What a search loses: pairs whose best pose is wrong are searched again, with the right pose among the candidates.

Where that is the best one, it was not proposed. Where it is not, the lines speak for another pose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from plueckernet.data.protocols import LinePair
from plueckernet.estimation.judgement import Calibration
from plueckernet.estimation.search import PoseSearch
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.evaluation.acceptance_values import Judged, Missed
from plueckernet.evaluation.datasets import EvaluationDataset
from plueckernet.evaluation.metrics import pose_error
from plueckernet.evaluation.outcomes import is_right
from plueckernet.evaluation.protocols import Recorded
from plueckernet.matchers import load_matcher


def missed_poses(
    pairs: str, dataset: EvaluationDataset, rows: Sequence[Judged], matcher: str, calibration: Calibration | None
) -> list[Missed]:
    """Every wrong best pose of a dataset."""
    return [
        Missed(
            pairs=pairs,
            index=row.prediction.pair,
            places=row.prediction.places,
            band=row.prediction.band,
            listed=row.listed,
            preferred=prefers_truth(dataset.pair(Recorded(), row.prediction.pair), matcher, calibration),
        )
        for row in rows
        if not row.right
    ]


def prefers_truth(pair: LinePair, matcher: str, calibration: Calibration | None) -> bool:
    """Whether the best pose is right if the search begins with the right one."""
    settings = RegistrationSettings()
    matching = load_matcher(matcher).matching(settings)
    if calibration is not None:
        matching = replace(matching, calibration=calibration)
    with torch.inference_mode():
        maps = settings.normalize(pair.source, pair.target)
        truth = maps.normalized_pose(pair.target_T_source)
        candidates = PoseSearch(maps, matching, settings).run(given=[truth]).candidates
        best = [maps.original_pose(entry.refinement.pose) for entry in candidates[:1]]
    return any(is_right(pose_error(pose, pair.target_T_source)) for pose in best)
