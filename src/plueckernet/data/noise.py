"""The paper's noise on lines (Sec. 4.1), for one map or a padded batch of maps.

"The direction is perturbed by a random rotation, with angles sampled from N(0°, 2°)" has two readings, and each is a
:data:`DirectionNoise`:

* ``random-axis``: one angle, about an axis of any direction. A third of its variance is spin about the line, which
  changes nothing.
* ``each-axis``: an angle about each of the axes x, y, z, each clipped. Directions err by the
  root of three times as much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.data.random_source import RandomSource
from plueckernet.geometry import LineSet
from plueckernet.geometry.pose import rotation_exp

DirectionNoise = Literal["random-axis", "each-axis"]


@dataclass(frozen=True)
class Noise:
    """The paper's noise on a line's footpoint and direction, each clipped; a limit of None does not clip."""

    position: float = 0.05  # m, one sigma on each axis
    position_limit: float | None = 0.25  # m
    direction: float = 2.0  # degrees, one sigma of an angle
    direction_limit: float | None = 5.0  # degrees
    turn: DirectionNoise = "random-axis"  # what the angle is about


@dataclass(frozen=True, eq=False)
class NoiseDraws:
    """Standard normal numbers that move and turn each line."""

    offset: Float[Tensor, "*b n 3"]
    angle: Float[Tensor, "*b n 1"]
    axis_vector: Float[Tensor, "*b n 3"]  # along the random axis, of any length; or the angle about each axis

    @classmethod
    def draw(cls, mask: Bool[Tensor, "b n"], random: RandomSource) -> NoiseDraws:
        """Numbers for the rows of the mask."""
        return NoiseDraws(random.normal(mask, 3), random.normal(mask, 1), random.normal(mask, 3))

    def axis(self) -> Float[Tensor, "*b n 3"]:
        """Unit vectors of any direction."""
        return normalize(self.axis_vector, dim=-1)


def noisy(lines: LineSet, noise: Noise, reference: Float[Tensor, "*b 3"] | None, draws: NoiseDraws) -> LineSet:
    """Move the point of each line nearest to ``reference`` (default: the origin) and turn the line there.

    The line's endpoints, if it has any, move with it.
    """
    offset = _clipped(noise.position * draws.offset, noise.position_limit)
    foot = lines.footpoints(reference)
    turn = _turns(noise, draws)
    # About its own footpoint: x -> foot + offset + turn (x - foot), a different pose for each line.
    direction = normalize((turn @ lines.direction[..., None])[..., 0], dim=-1, eps=0.0)
    moved = LineSet(direction, torch.linalg.cross(foot + offset, direction), mask=lines.mask)
    if lines.endpoints is None:
        return moved
    half_vectors = (lines.endpoints - foot[..., None, :]) @ turn.mT
    return moved.replaced(endpoints=(foot + offset)[..., None, :] + half_vectors)


def _turns(noise: Noise, draws: NoiseDraws) -> Float[Tensor, "*b n 3 3"]:
    spread = math.radians(noise.direction)
    limit = None if noise.direction_limit is None else math.radians(noise.direction_limit)
    if noise.turn == "random-axis":
        return rotation_exp(_clipped(spread * draws.angle, limit) * draws.axis())
    angles = _clipped(spread * draws.axis_vector, limit)  # (*b, n, 3)
    about_x, about_y, about_z = rotation_exp(torch.diag_embed(angles)).unbind(-3)
    return about_z @ about_y @ about_x


def _clipped(value: Tensor, limit: float | None) -> Tensor:
    return value if limit is None else value.clamp(-limit, limit)


def with_noise(
    lines: LineSet, noise: Noise, reference: Float[Tensor, "3"] | None, generator: torch.Generator
) -> LineSet:
    """:func:`noisy` for one map, with random numbers from the generator."""

    def normal(columns: int) -> Tensor:
        return torch.randn(len(lines), columns, generator=generator, dtype=torch.float64)

    return noisy(lines, noise, reference, NoiseDraws(normal(3), normal(1), normal(3)))
