"""The maps that are aligned: any number, unordered, each with a name and about its own centre."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.maps import MIN_LINES
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.merging import sim3

MapsLike = Any
"""Maps as `register` takes them, in a list or by name."""


@dataclass(frozen=True, eq=False)
class MapHeap:
    """Maps with their names, each about its own centre, so that coordinates of any size keep their digits.

    Where the units of the maps are not known, each map is in units of its own radius.
    """

    names: tuple[str, ...]
    originals: tuple[LineSet, ...]
    lines: tuple[LineSet, ...]  # centred, in the unit of the heap
    centres: Float[Tensor, "m 3"]
    units: Float[Tensor, " m"]  # of the heap, in those of the maps; one where all maps have the same

    @classmethod
    def of(cls, maps: MapsLike, same_unit: bool = True) -> MapHeap:
        """Read and check the maps."""
        if isinstance(maps, str | Path | LineSet) or not isinstance(maps, Iterable):
            raise InputError(f"align: expected maps in a list or by name, got {type(maps).__name__}")
        named = dict(maps) if isinstance(maps, Mapping) else dict(zip(_names(maps), maps, strict=True))
        if not named:
            raise InputError("align: there are no maps")
        originals = tuple(as_lines(lines) for lines in named.values())
        for name, lines in zip(named, originals, strict=True):
            if len(lines) < MIN_LINES:
                raise InputError(f"{name}: it has {len(lines)} lines; at least three are needed")
        centres = torch.stack([lines.centre() for lines in originals])
        centred = tuple(lines.shifted(centre) for lines, centre in zip(originals, centres, strict=True))
        units = torch.ones(len(named), dtype=torch.float64)
        if not same_unit:
            units = torch.stack([map_radius(lines) for lines in centred])
            scaled = zip(centred, units.tolist(), strict=True)
            centred = tuple(Similarity.from_pose(Pose.identity(), 1 / unit) @ lines for lines, unit in scaled)
        return MapHeap(tuple(named), originals, centred, centres, units)

    def frame(self, number: int) -> Float[Tensor, "4 4"]:
        """From the frame of the heap to that of the map as it was given."""
        return map_frame(self.centres[number], float(self.units[number]))

    @property
    def radius(self) -> float:
        """The median radius of the maps."""
        return float(torch.stack([map_radius(lines) for lines in self.lines]).median())


def map_radius(lines: LineSet) -> Float[Tensor, ""]:
    """Median distance of the lines from their centre: half of the lines are within it."""
    anchor = lines.anchors(lines.centre())
    return (anchor - anchor.median(0).values).norm(dim=-1).median().clamp_min(1e-9)


def _names(maps: Iterable[LinesLike]) -> list[str]:
    """Paths as they are given, other maps by their number; equal names get a number too."""
    names: list[str] = []
    for number, lines in enumerate(maps):
        name = str(lines) if isinstance(lines, str | Path) else f"map {number}"
        names.append(name if name not in names else f"{name} ({number})")
    return names


def map_frame(centre: Float[Tensor, "3"], unit: float) -> Float[Tensor, "4 4"]:
    """From a map about its centre, in units of its own, to the map as it was given."""
    return sim3.assemble(torch.tensor(unit, dtype=torch.float64), torch.eye(3, dtype=torch.float64), centre)
