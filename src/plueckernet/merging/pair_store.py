"""Registrations of pairs, kept in a folder so that an interrupted alignment goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from plueckernet.errors import FormatError
from plueckernet.geometry import LineSet
from plueckernet.io.atomic import atomic_write
from plueckernet.io.files import make_folder, read_json
from plueckernet.merging.edges import MapEdge
from plueckernet.result import RegistrationResult

RegisterPairs = Callable[[Sequence[tuple[LineSet, LineSet]]], Iterator[RegistrationResult]]
"""Registers pairs of maps; gives a result for each, in their order, as soon as it is there."""


class PairStore:
    """Edges by the content of both maps and everything else that decides the result; in memory without a folder."""

    def __init__(self, folder: Path | None, maps: Sequence[LineSet], made_with: str) -> None:
        self._folder = folder
        self._digests = [_digest(lines) for lines in maps]
        self._made_with = made_with
        if folder is not None:
            make_folder(folder)

    def path(self, source: int, target: int) -> Path | None:
        """The file of a pair."""
        if self._folder is None:
            return None
        text = f"{self._digests[source]} {self._digests[target]} {self._made_with}"
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"

    def load(self, source: int, target: int) -> MapEdge | None:
        """The edge of an earlier run; a file that cannot be read counts as none."""
        path = self.path(source, target)
        if path is None or not path.exists():
            return None
        try:
            return MapEdge.from_dict(source, target, read_json(path))
        except (FormatError, KeyError, TypeError, ValueError, RuntimeError, OverflowError):
            return None

    def save(self, edge: MapEdge) -> None:
        """Keep an edge; the file is whole or not there."""
        path = self.path(edge.source, edge.target)
        if path is not None:
            with atomic_write(path) as stream:
                stream.write(json.dumps(edge.to_dict(), allow_nan=False) + "\n")


def registered_edges(
    maps: Sequence[LineSet], pairs: Sequence[tuple[int, int]], store: PairStore, register_pairs: RegisterPairs
) -> Iterator[MapEdge]:
    """The edges of these pairs: those that are kept first, then the others as they are registered."""
    missing = []
    for source, target in pairs:
        edge = store.load(source, target)
        if edge is None:
            missing.append((source, target))
        else:
            yield edge
    results = register_pairs([(maps[source], maps[target]) for source, target in missing])
    for (source, target), result in zip(missing, results, strict=True):
        edge = MapEdge.of(source, target, result)
        store.save(edge)
        yield edge


def _digest(lines: LineSet) -> str:
    """Of all that a registration uses."""
    digest = hashlib.sha256()
    for name in ("direction", "moment", "endpoints", "sigma"):
        values = getattr(lines, name)
        digest.update(name.encode() if values is None else values.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
