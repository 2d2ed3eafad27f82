"""The paper's noise on lines (Sec. 4.1), for one map or a padded batch of maps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.data.random_source import RandomSource
from plueckernet.geometry import LineSet
from plueckernet.geometry.pose import rotation_exp


@dataclass(frozen=True)
class Noise:
    """The paper's noise on a line's footpoint and direction, each clipped."""

    position: float = 0.05  # m, one sigma on each axis
    position_limit: float = 0.25  # m
    direction: float = 2.0  # degrees, one sigma, about a random axis
    direction_limit: float = 5.0  # degrees


@dataclass(frozen=True, eq=False)
class NoiseDraws:
    """Standard normal numbers that move and turn each line."""

    offset: Float[Tensor, "*b n 3"]
    angle: Float[Tensor, "*b n 1"]
    axis_vector: Float[Tensor, "*b n 3"]  # along the axis, of any length

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
    limit, spread = math.radians(noise.direction_limit), math.radians(noise.direction)
    offset = (noise.position * draws.offset).clamp(-noise.position_limit, noise.position_limit)
    angle = (spread * draws.angle).clamp(-limit, limit)
    foot = lines.footpoints(reference)
    turn = rotation_exp(angle * draws.axis())
    # About its own footpoint: x -> foot + offset + turn (x - foot), a different pose for each line.
    direction = normalize((turn @ lines.direction[..., None])[..., 0], dim=-1, eps=0.0)
    moved = LineSet(direction, torch.linalg.cross(foot + offset, direction), mask=lines.mask)
    if lines.endpoints is None:
        return moved
    half_vectors = (lines.endpoints - foot[..., None, :]) @ turn.mT
    return moved.replaced(endpoints=(foot + offset)[..., None, :] + half_vectors)


def with_noise(
    lines: LineSet, noise: Noise, reference: Float[Tensor, "3"] | None, generator: torch.Generator
) -> LineSet:
    """:func:`noisy` for one map, with random numbers from the generator."""

    def normal(columns: int) -> Tensor:
        return torch.randn(len(lines), columns, generator=generator, dtype=torch.float64)

    return noisy(lines, noise, reference, NoiseDraws(normal(3), normal(1), normal(3)))
