"""The maps that are aligned: any number, unordered, each with a name and about its own centre."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.maps import MIN_LINES
from plueckernet.geometry import LineSet
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.merging.candidates import map_radius

MapsLike = Sequence[LinesLike] | Mapping[str, LinesLike]


@dataclass(frozen=True, eq=False)
class MapHeap:
    """Maps with their names, each about its own centre, so that coordinates of any size keep their digits."""

    names: tuple[str, ...]
    originals: tuple[LineSet, ...]
    lines: tuple[LineSet, ...]  # centred
    centres: Float[Tensor, "m 3"]

    @classmethod
    def of(cls, maps: MapsLike) -> MapHeap:
        """Read and check the maps."""
        named = dict(maps) if isinstance(maps, Mapping) else dict(zip(_names(maps), maps, strict=True))
        if not named:
            raise InputError("align: there are no maps")
        originals = tuple(as_lines(lines) for lines in named.values())
        for name, lines in zip(named, originals, strict=True):
            if len(lines) < MIN_LINES:
                raise InputError(f"{name}: it has {len(lines)} lines; at least three are needed")
        centres = torch.stack([lines.centre() for lines in originals])
        centred = tuple(lines.shifted(centre) for lines, centre in zip(originals, centres, strict=True))
        return MapHeap(tuple(named), originals, centred, centres)

    @property
    def radius(self) -> float:
        """The median radius of the maps."""
        return float(torch.stack([map_radius(lines) for lines in self.lines]).median())


def _names(maps: Sequence[LinesLike]) -> list[str]:
    """Paths as they are given, other maps by their number; equal names get a number too."""
    names: list[str] = []
    for number, lines in enumerate(maps):
        name = str(lines) if isinstance(lines, str | Path) else f"map {number}"
        names.append(name if name not in names else f"{name} ({number})")
    return names
