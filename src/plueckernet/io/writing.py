"""`write_lines`: write a `LineSet` to a file of any format that can represent it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.geometry.arrays import ArrayLike
from plueckernet.geometry.lines import LineSet
from plueckernet.io.registry import FORMATS, Format, format_named, format_of_suffix


def write_lines(path: str | Path, lines: LineSet | ArrayLike, *, format: str | None = None) -> None:
    """Write a line map atomically; reading it back gives the same float64 numbers.

    Args:
        path: The file; an existing one is replaced when the new one is complete.
        lines: One (unbatched) set, or end points `(n, 2, 3)` or `(n, 6)` as an array or a list. Infinite lines can
            only be written as `.npz`; see `clip_to_ball`.
        format: One of the names in `FORMATS`; by default the suffix decides.

    Raises:
        InputError: The format cannot represent the lines, or the file cannot be written.
    """
    path = Path(path)
    chosen = writable_format(path, format)
    lines = lines if isinstance(lines, LineSet) else LineSet.from_segments(lines)
    if lines.direction.ndim != 2:
        raise InputError("only an unbatched LineSet can be written; write the sets of a batch separately")
    if lines.mask is not None:
        lines = lines.replaced(mask=None)[lines.mask]
    if len(lines) == 0:
        raise InputError(f"{path}: there are no lines to write")
    if chosen.write_all is not None:
        chosen.write_all(path, lines)
        return
    if lines.endpoints is None or chosen.write is None:
        raise InputError(
            f"{path}: infinite lines have no end points to write as {chosen.name};"
            " write .npz, or clip them to a radius first"
        )
    chosen.write(path, _array(lines.endpoints))


def clip_to_ball(lines: LineSet, radius: float, centre: Float[Tensor, " 3"] | None = None) -> LineSet:
    """Clip infinite lines to the segments inside a ball; lines outside it are dropped.

    Args:
        lines: One (unbatched) set.
        radius: Radius of the ball, in the unit of the map.
        centre: Centre of the ball; by default `lines.centre()`.
    """
    if not radius > 0:
        raise InputError(f"radius: expected a positive length, got {radius}")
    centre = lines.centre() if centre is None else centre
    foot = lines.footpoints(centre)
    half_length = (radius**2 - (foot - centre).square().sum(-1)).clamp_min(0).sqrt()
    offset = half_length[:, None] * lines.direction
    clipped = lines.replaced(endpoints=torch.stack([foot - offset, foot + offset], dim=1))
    return clipped if bool((half_length > 0).all()) else clipped[half_length > 0]


def writable_format(path: Path, name: str | None = None) -> Format:
    """The format in which `write_lines` would write a file; `InputError` if there is none."""
    chosen = format_of_suffix(path) if name is None else format_named(name)
    if chosen is None:
        raise InputError(f"{path}: no format has the suffix {path.suffix!r}; name one of: {_writable()}")
    if not chosen.is_writable:
        raise InputError(f"{path}: {chosen.name} can only be read; write one of: {_writable()}")
    return chosen


def _writable() -> str:
    return ", ".join(known.name for known in FORMATS if known.is_writable)


def _array(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return tensor.detach().to("cpu", torch.float64).contiguous().numpy()
