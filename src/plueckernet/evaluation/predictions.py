"""Predictions, one line of JSON a pair, kept in a folder with the config that made them.

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
from torch import Tensor

from plueckernet.data.protocols import LinePair
from plueckernet.errors import DegenerateError, FormatError, InputError
from plueckernet.evaluation.datasets import Dataset, StandIn
from plueckernet.evaluation.methods import Estimate, Estimator, Matchability, Method
from plueckernet.evaluation.metrics import pose_error
from plueckernet.evaluation.protocols import Protocol, describe, slug
from plueckernet.evaluation.sources import project_tree, source_hash
from plueckernet.geometry.pose import Pose
from plueckernet.io.atomic import atomic_write

_CONFIG, _LINES = "config.json", "predictions.jsonl"


@dataclass(frozen=True)
class Cell:
    """What one number of a table is made of."""

    dataset: Dataset
    protocol: Protocol
    method: Method

    @property
    def folder(self) -> Path:
        """Where it is kept, below the folder of all predictions."""
        return Path(self.dataset.name, slug(self.protocol), self.method.name)

    def config(self) -> dict[str, Any]:
        """Everything that its predictions depend on."""
        found = {
            "dataset": self.dataset.config(),
            "protocol": describe(self.protocol),
            "method": self.method.config(),
            "sources": _sources(self.method.build, type(self.dataset).__name__),
        }
        kept: dict[str, Any] = json.loads(json.dumps(found))  # as it will be read back
        return kept


@cache
def _sources(build: Callable[..., Estimator], dataset: str) -> str:
    """Hash of the code that predictions depend on: a method's, a dataset's and that of :func:`predict`.

    It is finer than whole modules: predictions of ICL outlive a change of ``register()``. A method that is defined
    outside of the project counts with its whole file.
    """
    roots = [f"{__name__}:{predict.__name__}", f"{StandIn.__module__}:{dataset}"]
    if project_tree().path(build.__module__) is None:
        return source_hash(*roots, extra_files=[Path(inspect.getfile(build))])
    return source_hash(*roots, f"{build.__module__}:{build.__qualname__.partition('.')[0]}")


@dataclass(frozen=True)
class Prediction:
    """One pair: the truth, what was found, and what it rests on."""

    pair: int  # place of the scene in its dataset
    status: str  # found, failed or skipped
    reason: str  # why nothing was found
    truth: tuple[tuple[float, ...], ...]  # target_T_source
    pose: tuple[tuple[float, ...], ...] | None
    lines: tuple[int, int]  # of source and target
    common: int  # true matches
    matches: int  # claimed
    right: int  # of which true
    putative: int  # that a pose was looked for among
    putative_right: int  # of which true
    seconds: Mapping[str, float]
    matchable: float | None  # mean matchability of lines that have a match, times the number of lines
    unmatchable: float | None  # of those that have none

    @cached_property
    def error(self) -> tuple[float, float]:
        """Degrees and metres; infinite without a pose."""
        found = None if self.pose is None else _pose(self.pose)
        return pose_error(found, _pose(self.truth))


def predict(cell: Cell, estimator: Estimator, index: int, device: str = "cpu") -> Prediction:
    """Draw a pair and ask the method; input that it cannot use is a skipped pair, not an error.

    On the CPU times are those of the processor: what else the machine does makes no difference.
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
    found = estimate.target_T_source
    claimed = estimate.matches if found is not None and estimate.matches is not None else pair.matches[:0]
    putative = pair.matches[:0] if estimate.putative is None else estimate.putative
    matchable, unmatchable = _matchabilities(pair, estimate.matchability)
    return Prediction(
        pair=index,
        status=status,
        reason="" if found is not None else estimate.reason,
        truth=_rows(pair.target_T_source),
        pose=None if found is None else _rows(found),
        lines=(len(pair.source), len(pair.target)),
        common=len(pair.matches),
        matches=len(claimed),
        right=_right(claimed, pair),
        putative=len(putative),
        putative_right=_right(putative, pair),
        seconds=_scaled(estimate.seconds, spent),
        matchable=matchable,
        unmatchable=unmatchable,
    )


def _checked(estimate: Estimate) -> Estimate:
    """The same, or, if what was found is no rigid motion, nothing found."""
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
        return {one.pair: one for one in _read_lines(folder / _LINES)}

    def append(self, cell: Cell, found: Iterable[Prediction]) -> None:
        """Keep more pairs of a cell."""
        folder = self.root / cell.folder
        if not (folder / _CONFIG).exists():
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(folder / _CONFIG) as stream:
                stream.write(json.dumps(cell.config(), indent=1) + "\n")
        with (folder / _LINES).open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(asdict(one), allow_nan=False) + "\n" for one in found)


def _read_lines(path: Path) -> list[Prediction]:
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
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
        content["truth"] = tuple(map(tuple, content["truth"]))
        content["pose"] = None if content["pose"] is None else tuple(map(tuple, content["pose"]))
        content["lines"] = tuple(content["lines"])
    except (TypeError, ValueError) as error:
        raise FormatError(path, f"no prediction: {error}", number) from error
    return Prediction(**content)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(path, f"no readable config: {error}") from error


def _differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Names of the entries in which two configs differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = sorted({*one, *other})
        return [name for key in keys for name in _differences(one.get(key), other.get(key), f"{place}.{key}")]
    return [] if one == other else [place.lstrip(".")]


def _matchabilities(pair: LinePair, found: Matchability | None) -> tuple[float | None, float | None]:
    """Mean over lines with and without a match, of both sides, where 1 is what each would have if all had the same."""
    if found is None or (len(found[0]), len(found[1])) != (len(pair.source), len(pair.target)):
        return None, None  # a method that looked at a part of the lines only
    having, lacking = [], []
    for side, values in enumerate(found):
        has = torch.zeros(len(values), dtype=torch.bool)
        has[pair.matches[:, side]] = True
        relative = values.double() / values.double().mean().clamp_min(1e-300)
        having.append(relative[has])
        lacking.append(relative[~has])
    return _mean(torch.cat(having)), _mean(torch.cat(lacking))


def _scaled(seconds: Mapping[str, float], together: float) -> dict[str, float]:
    """The same shares of another whole."""
    whole = sum(seconds.values())
    return {stage: together * one / whole for stage, one in seconds.items()} if whole else {}


def _mean(values: Tensor) -> float | None:
    return float(values.mean()) if len(values) else None


def _right(claimed: Tensor, pair: LinePair) -> int:
    """How many claimed matches are true."""
    width = max(1, len(pair.target))
    return int(torch.isin(claimed[:, 0] * width + claimed[:, 1], pair.matches[:, 0] * width + pair.matches[:, 1]).sum())


def _rows(pose: Pose) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, pose.matrix().tolist()))


def _pose(rows: Sequence[Sequence[float]]) -> Pose:
    return Pose.from_matrix(torch.tensor(rows, dtype=torch.float64))
