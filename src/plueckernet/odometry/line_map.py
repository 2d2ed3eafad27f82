"""A map that grows line by line: what was seen again is made better, what is new is added."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.geometry import LineSet


@dataclass(frozen=True, eq=False)
class LineMap:
    """Segments in the world frame, how often and when each was seen."""

    endpoints: Float[Tensor, "n 2 3"]
    seen: Int[Tensor, " n"]  # number of frames
    last: Int[Tensor, " n"]  # the latest of them

    @classmethod
    def empty(cls) -> LineMap:
        """A map of nothing."""
        none = torch.zeros(0, dtype=torch.long)
        return LineMap(torch.zeros(0, 2, 3, dtype=torch.float64), none, none)

    def __len__(self) -> int:
        return len(self.endpoints)

    def lines(self, which: Bool[Tensor, " n"] | None = None) -> LineSet:
        """All lines, or some, as segments."""
        return LineSet.from_segments(self.endpoints if which is None else self.endpoints[which])

    def recent(self, since: int) -> Bool[Tensor, " n"]:
        """Lines seen in that frame or later."""
        return self.last >= since

    def with_frame(self, lines: LineSet, matches: Int[Tensor, "k 2"], frame: int) -> LineMap:
        """The map after a frame whose lines, in the world frame, match rows ``(frame, map)``; the others are new."""
        found = lines.endpoints
        if found is None:
            raise ValueError("a map is made of segments")
        rows, places = matches.unbind(-1)
        endpoints, seen, last = self.endpoints.clone(), self.seen.clone(), self.last.clone()
        endpoints[places] = fused(endpoints[places], seen[places].double(), found[rows])
        seen[places] += 1
        last[places] = frame
        new = torch.ones(len(lines), dtype=torch.bool)
        new[rows] = False
        count = int(new.sum())
        return replace(
            self,
            endpoints=torch.cat([endpoints, found[new]]),
            seen=torch.cat([seen, torch.ones(count, dtype=torch.long)]),
            last=torch.cat([last, torch.full((count,), frame)]),
        )


def fused(
    known: Float[Tensor, "k 2 3"], weight: Float[Tensor, " k"], found: Float[Tensor, "k 2 3"]
) -> Float[Tensor, "k 2 3"]:
    """One segment for two that show the same line: the line of least squares, from end to end of both.

    Longer segments fix a line better, so a segment counts by its length times how often it was seen.
    """
    lengths = [(ends[:, 1] - ends[:, 0]).norm(dim=-1) for ends in (known, found)]
    weights = torch.stack([lengths[0] * weight, lengths[1]], -1)
    weights = weights / weights.sum(-1, keepdim=True)
    points = torch.cat([known, found], 1)
    middles = torch.stack([known.mean(1), found.mean(1)], 1)
    centre = (weights[..., None] * middles).sum(1)
    share = weights.repeat_interleave(2, dim=1)[..., None]
    arms = points - centre[:, None]
    spread = (share * arms).mT @ arms
    direction = torch.linalg.eigh(spread).eigenvectors[..., -1]
    along = (arms * direction[:, None]).sum(-1)
    reach = torch.stack([along.amin(-1), along.amax(-1)], -1)
    return centre[:, None] + reach[..., None] * direction[:, None]
