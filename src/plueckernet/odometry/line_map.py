"""An incremental line map: lines seen again are fused, new lines are added."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.geometry import LineSet


@dataclass(frozen=True, eq=False)
class LineMap:
    """Segments in the world frame, with how often and when each was seen."""

    endpoints: Float[Tensor, "n 2 3"]
    seen: Int[Tensor, " n"]  # number of frames
    last: Int[Tensor, " n"]  # the latest frame

    @classmethod
    def empty(cls) -> LineMap:
        """A map without lines."""
        no_counts = torch.zeros(0, dtype=torch.long)
        return LineMap(torch.zeros(0, 2, 3, dtype=torch.float64), no_counts, no_counts)

    def __len__(self) -> int:
        return len(self.endpoints)

    def lines(self, which: Bool[Tensor, " n"] | None = None) -> LineSet:
        """All lines, or those selected by ``which``, as segments."""
        return LineSet.from_segments(self.endpoints if which is None else self.endpoints[which])

    def recent(self, since: int) -> Bool[Tensor, " n"]:
        """Lines seen in that frame or later."""
        return self.last >= since

    def with_frame(self, lines: LineSet, matches: Int[Tensor, "k 2"], frame: int) -> LineMap:
        """The map after adding a frame; ``matches`` are rows ``(frame line, map line)``, the other lines are new.

        ``lines`` are in the world frame.
        """
        observed = lines.endpoints
        if observed is None:
            raise ValueError("a line map needs segments")
        rows, map_rows = matches.unbind(-1)
        endpoints, seen, last = self.endpoints.clone(), self.seen.clone(), self.last.clone()
        endpoints[map_rows] = fused(endpoints[map_rows], seen[map_rows].double(), observed[rows])
        seen[map_rows] += 1
        last[map_rows] = frame
        new = torch.ones(len(lines), dtype=torch.bool)
        new[rows] = False
        count = int(new.sum())
        return replace(
            self,
            endpoints=torch.cat([endpoints, observed[new]]),
            seen=torch.cat([seen, torch.ones(count, dtype=torch.long)]),
            last=torch.cat([last, torch.full((count,), frame)]),
        )


def fused(
    known: Float[Tensor, "k 2 3"], weight: Float[Tensor, " k"], observed: Float[Tensor, "k 2 3"]
) -> Float[Tensor, "k 2 3"]:
    """Fuse each pair of segments of the same line into the least-squares line over the union of their extents.

    Long segments determine a line better, so a segment is weighted by its length times its number of observations.
    """
    lengths = [(ends[:, 1] - ends[:, 0]).norm(dim=-1) for ends in (known, observed)]
    weights = torch.stack([lengths[0] * weight, lengths[1]], -1)
    weights = weights / weights.sum(-1, keepdim=True)
    points = torch.cat([known, observed], 1)
    midpoints = torch.stack([known.mean(1), observed.mean(1)], 1)
    centre = (weights[..., None] * midpoints).sum(1)
    point_weights = weights.repeat_interleave(2, dim=1)[..., None]
    offsets = points - centre[:, None]
    scatter = (point_weights * offsets).mT @ offsets
    direction = torch.linalg.eigh(scatter).eigenvectors[..., -1]
    along = (offsets * direction[:, None]).sum(-1)
    extent = torch.stack([along.amin(-1), along.amax(-1)], -1)
    return centre[:, None] + extent[..., None] * direction[:, None]
