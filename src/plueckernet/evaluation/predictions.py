"""Predictions, one line of JSON per pair, kept in a folder with the config that made them.

A folder holds one cell: a method on the pairs of a protocol on a dataset. More pairs are appended; a folder made by
another config is refused, so that no metric ever mixes two.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.data.protocols import LinePair
from plueckernet.errors import DegenerateError, FormatError, InputError
from plueckernet.evaluation.datasets import EvaluationDataset
from plueckernet.evaluation.methods import Estimate, Estimator, Matchability, Method
from plueckernet.evaluation.metrics import family_error, pose_error
from plueckernet.evaluation.outcomes import RIGHT, Outcome, is_right
from plueckernet.evaluation.protocols import EvaluationProtocol, LabelledPair, UnrelatedPair, protocol_config, slug
from plueckernet.evaluation.sources import project_tree, source_hash
from plueckernet.geometry.pose import Pose
from plueckernet.io.atomic import atomic_write
from plueckernet.io.files import read_json, read_text
from plueckernet.result import RegistrationResult

_CONFIG, _LINES = "config.json", "predictions.jsonl"
PoseMatrix = tuple[tuple[float, ...], ...]  # 4 x 4


@dataclass(frozen=True)
class Cell:
    """What one number of a table is made of."""

    dataset: EvaluationDataset
    protocol: EvaluationProtocol
    method: Method

    @property
    def folder(self) -> Path:
        """Where it is kept, below the folder of all predictions."""
        return Path(self.dataset.name, slug(self.protocol), self.method.name)

    def config(self) -> dict[str, Any]:
        """Everything that its predictions depend on."""
        config = {
            "dataset": self.dataset.config(),
            "protocol": protocol_config(self.protocol),
            "method": self.method.config(),
            "sources": _sources(self.method.build, type(self.dataset)),
        }
        kept: dict[str, Any] = json.loads(json.dumps(config))  # as it will be read back
        return kept


@cache
def _sources(build: Callable[..., Estimator], dataset: type) -> str:
    """Hash of the code that predictions depend on: a method's, a dataset's and that of :func:`predict`.

    It is finer than whole modules: predictions of ICL outlive a change of ``register()``. A method that is defined
    outside of the project counts with its whole file.
    """
    roots = [f"{__name__}:{predict.__name__}", f"{dataset.__module__}:{dataset.__name__}"]
    if project_tree().path(build.__module__) is None:
        return source_hash(*roots, extra_files=[Path(inspect.getfile(build))])
    return source_hash(*roots, f"{build.__module__}:{build.__qualname__.partition('.')[0]}")


@dataclass(frozen=True)
class PredictedCandidate:
    """A pose that was refined, with the evidence for it."""

    pose: PoseMatrix
    evidence: Mapping[str, Any]
    group: int  # candidates of one group give the same answer


@dataclass(frozen=True)
class Prediction:
    """One pair: the truth, what was found, and what it rests on."""

    pair: int  # place of the scene in its dataset
    status: str  # found, failed or skipped
    accepted: bool  # whether the method calls its pose a success; methods that do not judge accept every pose
    reason: str  # why nothing was found
    truth: PoseMatrix | None  # target_T_source; None for maps of different places
    pose: PoseMatrix | None
    best: PoseMatrix | None  # the pose or, where none was accepted, the best candidate
    lines: tuple[int, int]  # of source and target
    common: int  # true matches
    common_lines: int  # lines that have a match, of the side that has fewer
    matches: int  # claimed
    right: int  # of which true
    putative: int  # matches from which the pose was estimated
    putative_right: int  # of which true
    seconds: Mapping[str, float]
    matchable: float | None  # mean matchability of lines that have a match, times the number of lines
    unmatchable: float | None  # of those that have none
    squared_error: float | None  # of a right pose, normalised by its covariance; six on average if that is honest
    verdict: str | None  # success, ambiguous or failed; None of methods that do not judge
    exchangeable: int  # poses that a symmetry makes exchangeable, the best included
    unobservable: bool  # whether the inliers leave a motion undetermined
    candidates: tuple[PredictedCandidate, ...]  # the best first; none of methods that do not judge
    places: tuple[str, ...]  # that the maps show, where the pair knows them
    band: str  # how hard the pair is, likewise
    family: tuple[PoseMatrix, ...]  # all true poses, where there are more than one
    free_direction: tuple[float, ...] | None  # along which a shift is no error

    @cached_property
    def error(self) -> tuple[float, float]:
        """Degrees and metres of the pose; infinite without one."""
        return self._error(self.pose)

    @cached_property
    def best_error(self) -> tuple[float, float]:
        """Degrees and metres of the best pose, accepted or not."""
        return self._error(self.best)

    def outcome(self) -> Outcome:
        """What is counted."""
        error = None if self.best is None else self.best_error
        return Outcome(error, self.accepted, self.common_lines, self.putative_right)

    @cached_property
    def candidate_errors(self) -> tuple[tuple[float, float], ...]:
        """Degrees and metres of each candidate."""
        return tuple(self._error(candidate.pose) for candidate in self.candidates)

    @property
    def listed_error(self) -> tuple[float, float]:
        """Degrees and metres of the closest of the best pose and the candidates."""
        return min(
            (self.best_error, *self.candidate_errors),
            key=lambda error: max(error[0] / RIGHT[0], error[1] / RIGHT[1]),
        )

    def truths(self) -> list[Pose]:
        """Every true pose; none for maps of different places."""
        return [read_pose(matrix) for matrix in self.family or (self.truth,) if matrix is not None]

    def free_axis(self) -> Float[Tensor, "3"] | None:
        """The direction along which a shift is no error."""
        return None if self.free_direction is None else torch.tensor(self.free_direction, dtype=torch.float64)

    def _error(self, matrix: PoseMatrix | None) -> tuple[float, float]:
        return family_error(None if matrix is None else read_pose(matrix), self.truths(), self.free_axis())


def predict(cell: Cell, estimator: Estimator, index: int, device: str = "cpu") -> Prediction:
    """Draw a pair and ask the method; input that it cannot use is a skipped pair, not an error.

    On the CPU the times are CPU times: what else the machine does makes no difference.
    """
    pair = cell.dataset.pair(cell.protocol, index)
    start = time.process_time()
    try:
        estimate = _checked(estimator(pair))
        status = "failed" if estimate.target_T_source is None else "found"
    except DegenerateError as error:
        estimate, status = Estimate(None, {}, reason=str(error)), "failed"
    except InputError as error:
        estimate, status = Estimate(None, {}, reason=str(error)), "skipped"
    spent = time.process_time() - start if device == "cpu" else sum(estimate.seconds.values())
    return _compared(pair, estimate, index, status, spent)


def _compared(pair: LinePair, estimate: Estimate, index: int, status: str, spent: float) -> Prediction:
    pose, result = estimate.target_T_source, estimate.result
    claimed = estimate.matches if pose is not None and estimate.matches is not None else pair.matches[:0]
    putative = pair.matches[:0] if estimate.putative is None else estimate.putative
    matchable, unmatchable = _matchabilities(pair, estimate.matchability)
    best = pose if pose is not None or result is None else _first_alternative(result)
    return Prediction(
        pair=index,
        status=status,
        accepted=pose is not None and (result is None or result.ok),
        reason="" if pose is not None else estimate.reason,
        truth=_matrix(pair.target_T_source) if _related(pair) else None,
        pose=None if pose is None else _matrix(pose),
        best=None if best is None else _matrix(best),
        lines=(len(pair.source), len(pair.target)),
        common=len(pair.matches),
        common_lines=min(len(pair.matches[:, side].unique()) for side in (0, 1)),
        matches=len(claimed),
        right=_right(claimed, pair),
        putative=len(putative),
        putative_right=_right(putative, pair),
        seconds=_scaled(estimate.seconds, spent),
        matchable=matchable,
        unmatchable=unmatchable,
        squared_error=None if result is None else _squared_error(result, pair),
        verdict=None if result is None else str(result.status),
        exchangeable=1 if result is None else result.exchangeable,
        unobservable=result is not None and bool(result.unobservable),
        candidates=() if result is None else _candidates(result),
        **_label(pair),
    )


def _related(pair: LinePair) -> bool:
    return pair.related if isinstance(pair, LabelledPair) else not isinstance(pair, UnrelatedPair)


def _label(pair: LinePair) -> dict[str, Any]:
    """What a labelled pair knows about itself; others know nothing."""
    if not isinstance(pair, LabelledPair):
        return {"places": (), "band": "", "family": (), "free_direction": None}
    family = () if pair.family is None else tuple(map(_rows, pair.family.matrix().tolist()))
    free = None if pair.free_direction is None else tuple(pair.free_direction.tolist())
    return {"places": pair.places, "band": pair.band, "family": family, "free_direction": free}


def _first_alternative(result: RegistrationResult) -> Pose | None:
    """The best candidate of a registration that accepted none."""
    return result.alternatives[0].rigid_pose.to("cpu") if result.alternatives else None


def _candidates(result: RegistrationResult) -> tuple[PredictedCandidate, ...]:
    """All of them, the best first; those of a failed registration are its alternatives."""
    rows = [(other.rigid_pose, other.evidence, other.group) for other in result.alternatives]
    if result.rigid_pose is not None:
        rows = [(result.rigid_pose, result.evidence, result.group), *rows]
    return tuple(PredictedCandidate(_matrix(pose.to("cpu")), asdict(evidence), group) for pose, evidence, group in rows)


def _squared_error(result: RegistrationResult, pair: LinePair) -> float | None:
    """Of a right pose, in units of its covariance."""
    if result.rigid_pose is None or result.covariance is None or not _related(pair):
        return None
    pose, covariance = result.rigid_pose.to("cpu"), result.covariance.cpu()
    if not is_right(pose_error(pose, pair.target_T_source)):
        return None
    xi = (pair.target_T_source @ pose.inverse()).log()
    return float(xi @ torch.linalg.pinv(covariance, hermitian=True) @ xi)  # a known vertical is exact


def _checked(estimate: Estimate) -> Estimate:
    """The same estimate; without its pose if that is no rigid motion."""
    if estimate.target_T_source is None:
        return estimate
    try:
        Pose.from_matrix(estimate.target_T_source.matrix())
    except InputError as error:
        return replace(estimate, target_T_source=None, reason=str(error))
    return estimate


class Store:
    """A folder of cells."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, cell: Cell) -> dict[int, Prediction]:
        """What is known of a cell, by pair; raises :class:`InputError` if another config made it."""
        folder = self.root / cell.folder
        if not (folder / _CONFIG).exists():
            return {}
        kept, config = _json(folder / _CONFIG), cell.config()
        if kept != config:
            changed = ", ".join(_differences(kept, config))
            raise InputError(f"{folder} holds predictions of another config ({changed}): remove it or choose another")
        return {prediction.pair: prediction for prediction in _read_lines(folder / _LINES)}

    def append(self, cell: Cell, predictions: Iterable[Prediction]) -> None:
        """Keep more pairs of a cell."""
        folder = self.root / cell.folder
        if not (folder / _CONFIG).exists():
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(folder / _CONFIG) as stream:
                stream.write(json.dumps(cell.config(), indent=1) + "\n")
        with (folder / _LINES).open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(asdict(entry), allow_nan=False) + "\n" for entry in predictions)


def _read_lines(path: Path) -> list[Prediction]:
    if not path.exists():
        return []
    text = read_text(path)
    whole = text[: text.rfind("\n") + 1]
    if whole != text:  # an interrupted run left half a line, which the next one would go on with
        with atomic_write(path) as stream:
            stream.write(whole)
    return [_parsed(line, path, number) for number, line in enumerate(whole.splitlines(), 1)]


def _parsed(line: str, path: Path, number: int) -> Prediction:
    names = {field.name for field in fields(Prediction)}
    try:
        content = json.loads(line)
        if set(content) != names:
            raise ValueError(f"expected the keys {', '.join(sorted(names))}")
        for name in ("truth", "pose", "best"):
            content[name] = None if content[name] is None else _rows(content[name])
        content["family"] = tuple(map(_rows, content["family"]))
        content["candidates"] = tuple(
            PredictedCandidate(**candidate | {"pose": _rows(candidate["pose"])}) for candidate in content["candidates"]
        )
        for name in ("lines", "places"):
            content[name] = tuple(content[name])
        content["free_direction"] = content["free_direction"] and tuple(content["free_direction"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(path, f"no prediction: {error}", number) from error
    return Prediction(**content)


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except FormatError as error:
        raise FormatError(path, f"no readable config: {error.reason}", error.line) from error


def _differences(kept: Any, present: Any, place: str = "") -> list[str]:
    """Names of the entries in which two configs differ."""
    if isinstance(kept, Mapping) and isinstance(present, Mapping):
        keys = sorted({*kept, *present})
        return [name for key in keys for name in _differences(kept.get(key), present.get(key), f"{place}.{key}")]
    return [] if kept == present else [place.lstrip(".")]


def _matchabilities(pair: LinePair, given: Matchability | None) -> tuple[float | None, float | None]:
    """Means over lines with and without a match, of both sides; 1 is the mean over all lines."""
    if given is None or (len(given[0]), len(given[1])) != (len(pair.source), len(pair.target)):
        return None, None  # the method looked at some of the lines only
    having, lacking = [], []
    for side, values in enumerate(given):
        has = torch.zeros(len(values), dtype=torch.bool)
        has[pair.matches[:, side]] = True
        relative = values.double() / values.double().mean().clamp_min(1e-300)
        having.append(relative[has])
        lacking.append(relative[~has])
    return _mean(torch.cat(having)), _mean(torch.cat(lacking))


def _scaled(seconds: Mapping[str, float], total: float) -> dict[str, float]:
    """The same proportions of another total."""
    whole = sum(seconds.values())
    return {stage: total * spent / whole for stage, spent in seconds.items()} if whole else {}


def _mean(values: Tensor) -> float | None:
    return float(values.mean()) if len(values) else None


def _right(claimed: Tensor, pair: LinePair) -> int:
    """How many claimed matches are true."""
    width = max(1, len(pair.target))
    return int(torch.isin(claimed[:, 0] * width + claimed[:, 1], pair.matches[:, 0] * width + pair.matches[:, 1]).sum())


def _rows(matrix: Sequence[Sequence[float]]) -> PoseMatrix:
    return tuple(map(tuple, matrix))


def _matrix(pose: Pose) -> PoseMatrix:
    return _rows(pose.matrix().tolist())


def read_pose(rows: Sequence[Sequence[float]]) -> Pose:
    """A pose as predictions keep it."""
    return Pose.from_matrix(torch.tensor(rows, dtype=torch.float64))
