"""Random numbers for many scenes at once.

The simulator draws every random number from a :class:`RandomSource`. There are two:

* :class:`SceneGenerators` has one generator per scene and draws numbers for the real rows only, in float64. A scene
  gets the same numbers whether it is alone or one of a padded batch.
* :class:`DeviceGenerator` has one generator for the whole batch and draws numbers for the padding too, in float32.
  It never waits for the device, which is what training needs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.geometry import Pose
from plueckernet.geometry.pose import rotation_from_quaternion

Sampler = Callable[[torch.Generator, int], Tensor]  # draws a number of rows


class RandomSource(ABC):
    """Random numbers for the rows of a padded batch; ``each`` is the mask that asks for one row per scene."""

    def __init__(self, scenes: int, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self.each = torch.ones(scenes, dtype=torch.bool, device=device)

    @abstractmethod
    def rows(self, mask: Bool[Tensor, "b *n"], sample: Sampler) -> Tensor:
        """One sample per row of the mask; rows where it is False hold anything finite."""

    @abstractmethod
    def poisson(self, rate: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """Poisson distributed counts."""

    @abstractmethod
    def integers(self, mask: Bool[Tensor, "b n"], high: Int[Tensor, " b"]) -> Int[Tensor, "b n"]:
        """Whole numbers from 0 up to, but without, the bound of each scene."""

    @abstractmethod
    def order(self, mask: Bool[Tensor, "b n"]) -> Int[Tensor, "b n"]:
        """The rows of each scene: first the real ones in random order, then the padding."""

    def uniform(self, mask: Bool[Tensor, "b *n"], *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Numbers between two bounds, of the given shape per row."""

        def sample(generator: torch.Generator, count: int) -> Tensor:
            return torch.rand(count, *shape, generator=generator, dtype=self.dtype, device=self.device)

        return low + (high - low) * self.rows(mask, sample)

    def log_uniform(self, mask: Bool[Tensor, "b *n"], *, low: float, high: float) -> Tensor:
        """Numbers between two positive bounds whose logarithm is uniform."""
        return self.uniform(mask, low=math.log(low), high=math.log(high)).exp()

    def normal(self, mask: Bool[Tensor, "b *n"], *shape: int) -> Tensor:
        """Standard normal numbers, of the given shape per row."""

        def sample(generator: torch.Generator, count: int) -> Tensor:
            return torch.randn(count, *shape, generator=generator, dtype=self.dtype, device=self.device)

        return self.rows(mask, sample)

    def chance(self, mask: Bool[Tensor, "b *n"], probability: float) -> Bool[Tensor, "b *n"]:
        """True with the given probability."""

        def sample(generator: torch.Generator, count: int) -> Tensor:
            return torch.rand(count, generator=generator, device=self.device, dtype=torch.float32) < probability

        return self.rows(mask, sample)

    def poses(self, translation: float) -> Pose:
        """One pose per scene: any rotation, and a translation within ``[-translation, translation]`` on each axis."""
        quaternion = self.normal(self.each, 4)
        shift = self.uniform(self.each, 3) * 2 - 1
        return Pose(rotation_from_quaternion(quaternion), shift * translation)


class SceneGenerators(RandomSource):
    """One generator per scene, on the CPU."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        super().__init__(len(generators), torch.float64, torch.device("cpu"))
        self.generators = generators

    def rows(self, mask: Bool[Tensor, "b *n"], sample: Sampler) -> Tensor:
        """One sample per row of the mask; the other rows are zero."""
        counts = mask.flatten(1).sum(-1).tolist() if mask.ndim > 1 else mask.long().tolist()
        samples = [sample(generator, count) for generator, count in zip(self.generators, counts, strict=True)]
        drawn = samples[0].new_zeros(*mask.shape, *samples[0].shape[1:])
        drawn[mask] = torch.cat(samples)
        return drawn

    def poisson(self, rate: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """Poisson distributed counts; zero where the mask is False."""
        drawn = torch.zeros_like(rate)
        for row, generator in enumerate(self.generators):
            drawn[row, mask[row]] = torch.poisson(rate[row, mask[row]], generator=generator)
        return drawn

    def integers(self, mask: Bool[Tensor, "b n"], high: Int[Tensor, " b"]) -> Int[Tensor, "b n"]:
        """Whole numbers from 0 up to, but without, the bound of each scene; zero where the mask is False."""
        drawn = torch.zeros_like(mask, dtype=torch.int64)
        for row, (generator, bound) in enumerate(zip(self.generators, high.tolist(), strict=True)):
            drawn[row, mask[row]] = torch.randint(bound, (int(mask[row].sum()),), generator=generator)
        return drawn

    def order(self, mask: Bool[Tensor, "b n"]) -> Int[Tensor, "b n"]:
        """The rows of each scene: first the real ones in random order, then the padding."""
        return torch.stack([_order(real, each) for real, each in zip(mask, self.generators, strict=True)])


class DeviceGenerator(RandomSource):
    """One generator for all scenes, on the device that it lives on."""

    def __init__(self, generator: torch.Generator, scenes: int) -> None:
        super().__init__(scenes, torch.float32, generator.device)
        self.generator = generator

    def rows(self, mask: Bool[Tensor, "b *n"], sample: Sampler) -> Tensor:
        """One sample per row, padding included."""
        return sample(self.generator, mask.numel()).unflatten(0, mask.shape)

    def poisson(self, rate: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:  # noqa: ARG002
        """Poisson distributed counts, of the padding too."""
        return torch.poisson(rate, generator=self.generator)

    def integers(self, mask: Bool[Tensor, "b n"], high: Int[Tensor, " b"]) -> Int[Tensor, "b n"]:
        """Whole numbers from 0 up to, but without, the bound of each scene."""
        bound = high[:, None]
        return torch.minimum((self.uniform(mask) * bound).long(), bound - 1)

    def order(self, mask: Bool[Tensor, "b n"]) -> Int[Tensor, "b n"]:
        """The rows of each scene: first the real ones in random order, then the padding."""
        return self.uniform(mask).masked_fill(~mask, 2.0).argsort(-1)


def _order(real: Bool[Tensor, " n"], generator: torch.Generator) -> Int[Tensor, " n"]:
    rows, padding = real.nonzero()[:, 0], (~real).nonzero()[:, 0]
    return torch.cat([rows[torch.randperm(len(rows), generator=generator)], padding])
