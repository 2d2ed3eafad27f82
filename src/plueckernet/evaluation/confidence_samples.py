"""Registrations as samples of a calibration: their weights, fits to some of them, and places left out in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from plueckernet.errors import InputError
from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import FEATURES, Calibration, JudgementSettings, Status
from plueckernet.evaluation.logistic_fits import fit_choice, fit_logistic
from plueckernet.evaluation.outcomes import is_right
from plueckernet.evaluation.predictions import Prediction
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.real_pairs import PairKind
from plueckernet.evaluation.rejudgement import kept_evidence, rejudge

SYNTHETIC = "synthetic"
_MAX_WEIGHT = 4.0  # of a sample over the mean of its kind
_FAVOUR = 4.0  # the weight of the favoured kind over that of another
_DIGITS = 3  # of the weights of a calibration


@dataclass(frozen=True)
class FeatureNames:
    """What the two models of a calibration use."""

    choice: tuple[str, ...]
    presence: tuple[str, ...]  # of a right candidate; there is a constant, too

    def without(self, *dropped: str) -> FeatureNames:
        """All others."""
        choice, presence = (tuple(own for own in names if own not in dropped) for names in (self.choice, self.presence))
        return FeatureNames(choice, presence)


@dataclass(frozen=True)
class Sample:
    """One registration."""

    kind: str
    places: tuple[str, ...]  # that its maps show; none for synthetic scenes, which are all different
    evidence: tuple[Evidence, ...]  # of each candidate
    groups: tuple[int, ...]
    right: tuple[bool, ...]
    related: bool = True
    exchangeable: int = 1
    unobservable: bool = False


@dataclass(frozen=True)
class JudgedSample:
    """One registration as a calibration judges it."""

    sample: Sample
    status: Status
    confidence: float
    right: bool  # the most probable candidate


@dataclass(frozen=True)
class KindCount:
    """The pairs of one kind, judged by calibrations that were fitted without their places."""

    kind: str
    pairs: int
    right: Rate  # of the pairs that have a true pose
    right_and_called: Rate
    called: int
    wrong_and_called: int
    ambiguous: int


@dataclass(frozen=True, eq=False)
class Samples:
    """Registrations that a calibration is fitted to."""

    rows: tuple[Sample, ...]
    features: FeatureNames
    favoured: str | None = None  # a kind that counts more

    @cached_property
    def present(self) -> Bool[np.ndarray, "n k"]:
        """Which candidates there are; rows are padded to the longest."""
        counts = np.array([len(row.evidence) for row in self.rows], dtype=np.int64)
        return np.arange(max(1, counts.max(initial=0)))[None] < counts[:, None]

    @cached_property
    def right(self) -> Bool[np.ndarray, "n k"]:
        """Which candidates are right."""
        values = np.zeros(self.present.shape, dtype=bool)
        values[self.present] = [right for row in self.rows for right in row.right]
        return values

    @cached_property
    def choice_features(self) -> Float[np.ndarray, "n k f"]:
        """By row and candidate."""
        return self._features(self.features.choice)

    @cached_property
    def presence_features(self) -> Float[np.ndarray, "n k g"]:
        """By row and candidate."""
        return self._features(self.features.presence)

    @cached_property
    def weight(self) -> Float[np.ndarray, " n"]:
        """Equal in sum for all kinds but the favoured one and, within a kind, for all places; about 1 on average."""
        cells = [(row.kind, row.places) for row in self.rows]
        in_cell, kinds = Counter(cells), Counter(row.kind for row in self.rows)
        places = Counter(kind for kind, _ in in_cell)
        kind_weight = {kind: _FAVOUR if kind == self.favoured else 1.0 for kind in kinds}
        even = [kind_weight[kind] * len(self.rows) / len(kinds) / kinds[kind] for kind, _ in cells]
        share = [kinds[cell[0]] / places[cell[0]] / in_cell[cell] for cell in cells]
        return np.array(even) * np.minimum(share, _MAX_WEIGHT)

    def with_pose(self) -> Bool[np.ndarray, " n"]:
        """Those with a candidate; without any the confidence is zero and nothing has to be fitted."""
        return np.asarray(self.present.any(1))

    def of(self, *kinds: str) -> Bool[np.ndarray, " n"]:
        """The rows of some kinds."""
        return np.array([row.kind in kinds for row in self.rows], dtype=bool)

    def calibration(self, chosen: Bool[np.ndarray, " n"], fitted_on: str = "") -> Calibration:
        """Fitted to the chosen rows."""
        choice = self._choice_weights(chosen)
        rows = np.flatnonzero(chosen & self.with_pose())
        preference = np.where(self.present[rows], self.choice_features[rows] @ choice, -np.inf)
        preferred = self.presence_features[rows, preference.argmax(1)]
        any_right = np.asarray(self.right[rows].any(1))
        if not 0 < any_right.sum() < len(rows):
            raise InputError("a calibration needs registrations that are right and registrations that are wrong")
        constant, weights = fit_logistic(preferred, any_right, self.weight[rows])
        presence = {"constant": round(constant, _DIGITS), **_named(self.features.presence, weights)}
        return Calibration(presence, _named(self.features.choice, choice), fitted_on)

    def left_out(self) -> list[Calibration]:
        """For each row, a calibration fitted without the pairs that show any of its places."""
        known: dict[frozenset[str], Calibration] = {}
        for row in self.rows:
            places = frozenset(row.places)
            if places not in known:
                apart = np.array([places.isdisjoint(other.places) for other in self.rows], dtype=bool)
                known[places] = self.calibration(apart)
        return [known[frozenset(row.places)] for row in self.rows]

    def halves(self) -> list[Calibration]:
        """For each row, a calibration fitted to the others of two halves; the rows alternate between these."""
        even = np.arange(len(self.rows)) % 2 == 0
        calibrations = (self.calibration(~even), self.calibration(even))
        return [calibrations[i % 2] for i in range(len(self.rows))]

    def _features(self, names: Sequence[str]) -> Float[np.ndarray, "n k f"]:
        values = np.zeros((*self.present.shape, len(names)))
        evidence = [entry for row in self.rows for entry in row.evidence]
        if evidence:
            values[self.present] = [[FEATURES[name](entry) for name in names] for entry in evidence]
        return values

    def _choice_weights(self, chosen: Bool[np.ndarray, " n"]) -> Float[np.ndarray, " f"]:
        """Of rows with a right and a wrong candidate; of symmetric maps every candidate of the family is right."""
        several = self.right.any(1) & (self.present & ~self.right).any(1)
        rows = np.flatnonzero(chosen & several & ~self.of(PairKind.SYMMETRIC))
        if not len(rows):
            raise InputError("a calibration needs registrations with a right candidate and a wrong one")
        return fit_choice(self.choice_features[rows], self.present[rows], self.right[rows], self.weight[rows])


def _named(names: Sequence[str], weights: Float[np.ndarray, " f"]) -> dict[str, float]:
    return {name: round(float(weight), _DIGITS) for name, weight in zip(names, weights, strict=True)}


def sample(kind: str, prediction: Prediction) -> Sample | None:
    """A registration as a sample; None where the maps could not be registered at all."""
    if prediction.verdict is None:
        return None
    return Sample(
        kind,
        prediction.places,
        kept_evidence(prediction.candidates),
        tuple(candidate.group for candidate in prediction.candidates),
        tuple(is_right(error) for error in prediction.candidate_errors),
        prediction.truth is not None,
        prediction.exchangeable,
        prediction.unobservable,
    )


def judge_samples(
    samples: Samples, calibrations: Sequence[Calibration], settings: JudgementSettings = JudgementSettings()
) -> list[JudgedSample]:
    """Each row by its calibration."""
    judged = []
    for row, calibration in zip(samples.rows, calibrations, strict=True):
        verdict = rejudge(row.evidence, row.groups, calibration, row.exchangeable, row.unobservable, settings)
        right = bool(row.right) and row.right[verdict.best]
        judged.append(JudgedSample(row, verdict.status, verdict.confidence, right))
    return judged


def count_kinds(judged: Sequence[JudgedSample]) -> tuple[KindCount, ...]:
    """What is called a success, by kind."""
    counts = []
    for kind in dict.fromkeys(row.sample.kind for row in judged):
        rows = [row for row in judged if row.sample.kind == kind]
        related = [(row.right, row.status is Status.SUCCESS) for row in rows if row.sample.related]
        called = [row.right for row in rows if row.status is Status.SUCCESS]
        counts.append(
            KindCount(
                kind=kind,
                pairs=len(rows),
                right=Rate.of([right for right, _ in related]),
                right_and_called=Rate.of([right and accepted for right, accepted in related]),
                called=len(called),
                wrong_and_called=len(called) - sum(called),
                ambiguous=sum(row.status is Status.AMBIGUOUS for row in rows),
            )
        )
    return tuple(counts)
