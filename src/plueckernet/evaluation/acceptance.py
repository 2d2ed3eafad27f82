"""Which poses are accepted, and which of them are wrong: crops, sparse in dense maps, unrelated and symmetric maps.

Registrations are kept as they are made. The verdict is computed from the kept evidence, so that another calibration
needs no new registration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

from plueckernet.estimation.judgement import Calibration
from plueckernet.evaluation.acceptance_pairs import GROUPS, CropArchive, LabelledCrops, MapCases
from plueckernet.evaluation.acceptance_values import (
    AcceptanceValues,
    GroupCount,
    Judged,
    LeftOutCrops,
    count_group,
    count_shape,
    count_unrelated,
    judged,
    offenders,
)
from plueckernet.evaluation.confidence import ConfidenceValues
from plueckernet.evaluation.datasets import EvaluationDataset
from plueckernet.evaluation.documents import ResultDocument, from_json, read_json
from plueckernet.evaluation.methods import uncalibrated_method
from plueckernet.evaluation.missed_poses import missed_poses
from plueckernet.evaluation.outcomes import RIGHT
from plueckernet.evaluation.predictions import Cell, Prediction
from plueckernet.evaluation.protocols import Recorded
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.real_maps import place_of_file
from plueckernet.evaluation.real_pairs import PairKind, RealPairs
from plueckernet.evaluation.reliability import Reliability, measured_reliability
from plueckernet.evaluation.runner import Runner
from plueckernet.matchers import load_matcher

SEED = 950_000_000  # of pairs that nothing was calibrated on
UNRELATED_PAIRS = 5000
SYMMETRIC_PAIRS = 140  # twenty of each shape
OWN_CROPS = "own crops"  # name of the dataset
PARALLEL = "3dlines"  # map whose lines are 99 % parallel
MAP_LIMITS = (2.5, 0.3)  # degrees and metres below which the pose of a whole map is right


@dataclass(frozen=True)
class AcceptanceData:
    """What to measure on."""

    folder: Path
    unrelated: int = UNRELATED_PAIRS
    symmetric: int = SYMMETRIC_PAIRS
    limit: int | None = None  # pairs of crops and of each group of maps at most, for a quick look
    crops: Path | None = None  # more crops, of a file that `plueckernet evaluate crops` wrote

    def datasets(self) -> dict[str, tuple[EvaluationDataset, int]]:
        """By name, with the number of pairs: those that take longest first, so that no process waits at the end."""
        maps = (self.folder / "lines", self.folder / "more_lines")
        crops, most = CropArchive(self.folder / "crops" / "pairs.npz"), self.limit or 100_000
        groups: dict[str, tuple[EvaluationDataset, int]] = {
            group: (MapCases(self.folder, group), most) for group in reversed(GROUPS)
        }
        if self.crops is not None:
            groups[OWN_CROPS] = (LabelledCrops(self.crops), most)
        return groups | {
            "crops": (crops, most),
            "symmetric": (RealPairs(PairKind.SYMMETRIC, first_seed=SEED), self.symmetric),
            "unrelated": (RealPairs(PairKind.UNRELATED, maps, SEED), self.unrelated),
        }


@dataclass(frozen=True)
class Calibrations:
    """A calibration and, where they are known, those that were fitted without some place."""

    whole: Calibration | None
    without: Mapping[str, Calibration] = field(default_factory=dict)  # by place

    def of_map(self, stem: str) -> Calibration | None:
        """The calibration that does not know a map; None if there is none."""
        place = place_of_file(stem, self.without)
        return None if place is None else self.without[place]


def evaluate_acceptance(
    matcher: str, runner: Runner, data: AcceptanceData, calibrations: Calibrations | None = None
) -> ResultDocument[AcceptanceValues]:
    """Register everything with a matcher; ``calibrations`` are used in place of the matcher's own."""
    method = uncalibrated_method(matcher)
    used = calibrations or Calibrations(load_matcher(matcher).calibration)
    cells = {name: (Cell(dataset, Recorded(), method), count) for name, (dataset, count) in data.datasets().items()}
    runner.compute(list(cells.values()))
    predictions = {name: runner.run([cell], count)[0] for name, (cell, count) in cells.items()}
    rows = {
        name: [judged(entry, used.whole, MAP_LIMITS if name in GROUPS else RIGHT) for entry in entries]
        for name, entries in predictions.items()
    }
    name = Path(matcher).stem
    values = replace(
        acceptance_values(name, "" if used.whole is None else used.whole.fitted_on, rows),
        left_out=_left_out(predictions["crops"], used) if used.without else None,
        missed=tuple(
            entry
            for crops in ("crops", OWN_CROPS)
            if crops in cells
            for entry in missed_poses(crops, cells[crops][0].dataset, rows[crops], matcher, used.whole)
        ),
    )
    weights = [] if method.weights is None else [method.weights]
    sources = provenance("plueckernet.evaluation.acceptance", weights, device=runner.settings.device)
    return ResultDocument(f"acceptance_{name}", sources.to_dict(), values)


def _left_out(predictions: Sequence[Prediction], calibrations: Calibrations) -> LeftOutCrops:
    """Crops of maps that the calibration was fitted to are judged without them, the others by the whole."""
    own = [calibrations.of_map(entry.places[0]) or calibrations.whole for entry in predictions]
    rows = [judged(entry, calibration) for entry, calibration in zip(predictions, own, strict=True)]
    return LeftOutCrops(_by_band([row for row in rows if row.prediction.places != (PARALLEL,)]), _reliability(rows))


def acceptance_values(matcher: str, fitted_on: str, rows: dict[str, list[Judged]]) -> AcceptanceValues:
    """All counts, of judged registrations by the name of their dataset."""
    crops = rows["crops"]
    others = [row for row in crops if row.prediction.places != (PARALLEL,)]
    seconds = [sum(row.prediction.seconds.values()) for row in crops]
    wrong = [entry for name, judgements in rows.items() for entry in offenders(name, judgements)]
    return AcceptanceValues(
        matcher=matcher,
        fitted_on=fitted_on,
        crops=_by_band(others),
        parallel_crops=_by_band([row for row in crops if row.prediction.places == (PARALLEL,)]),
        crop_reliability=_reliability(crops),
        crop_seconds=round(median(seconds), 4) if seconds else None,
        maps=tuple(count_group(name, rows[name]) for name in GROUPS),
        unrelated=count_unrelated(rows["unrelated"]),
        shapes=tuple(
            count_shape(shape, [row for row in rows["symmetric"] if row.prediction.band == shape])
            for shape in dict.fromkeys(row.prediction.band for row in rows["symmetric"])
        ),
        offenders=tuple(wrong),
        own_crops=_by_band(rows.get(OWN_CROPS, [])),
    )


def read_calibrations(path: Path) -> Calibrations:
    """Those of a document that ``plueckernet evaluate confidence`` wrote."""
    values: ConfidenceValues = from_json(ConfidenceValues, read_json(path)["values"], path)
    return Calibrations(values.calibration, {} if values.real is None else values.real.without)


def _by_band(rows: Sequence[Judged]) -> tuple[GroupCount, ...]:
    """From easy to hard, as the bands are named by the fraction in common."""
    bands = sorted({row.prediction.band for row in rows}, reverse=True)
    return tuple(count_group(band, [row for row in rows if row.prediction.band == band]) for band in bands)


def _reliability(rows: Sequence[Judged]) -> Reliability:
    confidence = np.array([row.confidence for row in rows])
    return measured_reliability(confidence, np.array([row.right for row in rows], dtype=bool))
