"""Training batches of recorded pairs, such as those that the authors of the paper published: no noise is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from plueckernet.data.pairs import LinePair, PairBatch
from plueckernet.data.prepared import INDEX, prepared_pairs
from plueckernet.errors import InputError
from plueckernet.geometry import Pose
from plueckernet.geometry.lines import stack_lines


@dataclass(frozen=True, eq=False)
class RecordedPairs:
    """The pairs of one split of a prepared dataset, in memory."""

    pairs: Sequence[LinePair]

    @classmethod
    def read(cls, folder: Path) -> RecordedPairs:
        """Those of a folder such as ``prepared/authors/train``; the index is in the folder above."""
        if not (folder.parent / INDEX).is_file():
            raise InputError(f"{folder}: not the train or test folder of a prepared dataset with recorded pairs")
        pairs = list(prepared_pairs(folder.parent, folder.name))
        usable = [pair for pair in pairs if len(pair.matches)]
        if not usable:
            raise InputError(f"{folder}: none of its {len(pairs)} recorded pairs has known matches to train on")
        return RecordedPairs(usable)

    def batch(self, count: int, lines: int, seed: int) -> PairBatch:
        """Random pairs in single precision; of maps of more than ``lines`` lines, a random part."""
        generator = torch.Generator().manual_seed(seed)
        numbers = torch.randint(len(self.pairs), (count,), generator=generator).tolist()
        chosen = [_thinned(self.pairs[number], lines, generator) for number in numbers]
        source, target = (
            stack_lines([getattr(pair, side).infinite().to(torch.float32) for pair in chosen])
            for side in ("source", "target")
        )
        correspondence = torch.zeros(count, source.direction.shape[1], target.direction.shape[1], dtype=torch.bool)
        for row, pair in enumerate(chosen):
            correspondence[row, pair.matches[:, 0], pair.matches[:, 1]] = True
        poses = [pair.target_T_source.to(torch.float32) for pair in chosen]
        pose = Pose(torch.stack([p.rotation for p in poses]), torch.stack([p.translation for p in poses]))
        return PairBatch(source, target, correspondence, pose)


def _thinned(pair: LinePair, lines: int, generator: torch.Generator) -> LinePair:
    """At most ``lines`` lines of each side, with the same fraction of them in common."""
    fraction = lines / max(len(pair.source), len(pair.target))
    if fraction >= 1:
        return pair
    order = torch.randperm(len(pair.matches), generator=generator)
    matches = pair.matches[order[: int(fraction * len(order))]]
    rows = [_kept(pair, side, matches, fraction, generator) for side in (0, 1)]
    return pair.of_rows(rows[0], rows[1])


def _kept(
    pair: LinePair, side: int, matches: Int[Tensor, "k 2"], fraction: float, generator: torch.Generator
) -> Int[Tensor, " r"]:
    """Rows of the matches that stay, and the same fraction of the rows without a match."""
    count = len((pair.source, pair.target)[side])
    single = torch.ones(count, dtype=torch.bool)
    single[pair.matches[:, side]] = False
    rows = single.nonzero()[:, 0]
    rows = rows[torch.randperm(len(rows), generator=generator)[: int(fraction * len(rows))]]
    return torch.cat([matches[:, side].unique(), rows])
