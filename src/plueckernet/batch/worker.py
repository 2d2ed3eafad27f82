"""What a worker does with its pairs: read, register, write each row as soon as it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from plueckernet.batch.locks import working
from plueckernet.batch.pairs import BatchPair
from plueckernet.batch.rows import ResultRow, error_row, result_row
from plueckernet.batch.store import pending_file, write_pending
from plueckernet.errors import PlueckernetError
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.similarity.search import ScaleChoice
from plueckernet.evaluation.provenance import weights_hash
from plueckernet.geometry.lines import LineSet
from plueckernet.matchers import NetworkMatcher, load_matcher
from plueckernet.registration import register_many
from plueckernet.result import RegistrationResult
from plueckernet.sensing import map_lines

MapPairs = Sequence[tuple[LineSet, LineSet]]
RegisterFunction = Callable[[MapPairs], Iterable[RegistrationResult]]
"""Registers pairs of maps, in their order. It has to be picklable, and is loaded once by each worker."""

NumberedPair = tuple[int, BatchPair]
_KEPT_MAPS = 32  # maps that a worker keeps in memory, because pairs that follow each other share them


@dataclass(frozen=True)
class PairRegistration:
    """Registers pairs by :func:`~plueckernet.register_many`; the weights are loaded once by each worker."""

    matcher: str = "invariant"
    settings: RegistrationSettings = field(default_factory=RegistrationSettings)
    seed: int = 0
    device: str = "cpu"
    scale: ScaleChoice = None

    def __call__(self, pairs: MapPairs) -> Iterator[RegistrationResult]:
        """The result of each pair, in order."""
        return register_many(
            pairs, matcher=self.matcher, settings=self.settings, seed=self.seed, device=self.device, scale=self.scale
        )

    def identity(self) -> dict[str, Any]:
        """What the results depend on. The device is none of it: a batch may continue on another machine."""
        known = load_matcher(self.matcher)
        return {
            "matcher": known.name,
            "weights": weights_hash(self.matcher) if isinstance(known, NetworkMatcher) else None,
            "settings": asdict(self.settings),
            "seed": self.seed,
            "scale": self.scale if isinstance(self.scale, str | None) else list(self.scale),
        }


def registration_identity(function: RegisterFunction) -> dict[str, Any]:
    """What a function says it is, or its name."""
    if isinstance(function, PairRegistration):
        return function.identity()
    known = getattr(function, "identity", None)
    if callable(known):
        return dict(known())
    named = function if hasattr(function, "__qualname__") else type(function)
    return {"function": f"{named.__module__}.{named.__qualname__}"}


@dataclass(frozen=True)
class PairWorker:
    """Computes pairs for the driver with this token; gives the number of rows that it wrote."""

    folder: Path
    token: str
    register: RegisterFunction

    def __call__(self, pairs: Sequence[NumberedPair]) -> int:
        """Compute the pairs that have no row yet: a worker that was killed may have completed some of them."""
        written = 0
        with working(self.folder, self.token) as wanted:
            missing = [pair for pair in pairs if wanted and not pending_file(self.folder, pair[0]).exists()]
            for row in self._rows(missing):
                write_pending(self.folder, row)
                written += 1
        return written

    def _rows(self, pairs: Sequence[NumberedPair]) -> Iterator[ResultRow]:
        """The row of each pair. If registering several fails, the pairs that are left are registered one by one."""
        readable: list[tuple[NumberedPair, tuple[LineSet, LineSet]]] = []
        for number, pair in pairs:
            try:
                lines = _kept(pair.source, pair.formats[0]), _kept(pair.target, pair.formats[1])
                readable.append(((number, pair), lines))
            except Exception as error:  # noqa: BLE001 - a bad file must not stop other pairs
                yield error_row(number, pair, _text(error))
        complete = 0
        try:
            for (number, pair), result in zip(
                (numbered for numbered, _ in readable), self.register([lines for _, lines in readable]), strict=False
            ):
                yield result_row(number, pair, result)
                complete += 1
        except Exception as error:  # noqa: BLE001 - as above
            if len(readable) == 1:
                yield error_row(*readable[0][0], _text(error))
                return
        for numbered, lines in readable[complete:]:
            yield self._single_row(numbered, lines)

    def _single_row(self, numbered: NumberedPair, lines: tuple[LineSet, LineSet]) -> ResultRow:
        try:
            return result_row(*numbered, next(iter(self.register([lines]))))
        except StopIteration:
            return error_row(*numbered, "the register function gave no result for this pair")
        except Exception as error:  # noqa: BLE001 - as above
            return error_row(*numbered, _text(error))


@lru_cache(_KEPT_MAPS)
def _kept(path: Path, format: str | None) -> LineSet:
    return map_lines(path, format)


def _text(error: Exception) -> str:
    """Our errors say all by themselves; of others the kind is needed."""
    return str(error) if isinstance(error, PlueckernetError) else f"{type(error).__name__}: {error}"
