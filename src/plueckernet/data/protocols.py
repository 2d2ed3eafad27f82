"""Protocols that make two line maps in different frames from one scene, with their pose and matches.

Three protocols, each a frozen dataclass handed to :func:`sample_pair`:

* :class:`PaperProtocol`: small motion, noise in each side's own frame, random subsets (Sec. 4.1);
* :class:`AnyProtocol`: any rotation, unknown line directions, random subsets;
* :class:`ScanProtocol`: two surveys that cover neighbouring, partly overlapping parts of the scene.

All of them are written for a padded batch of scenes. :func:`sample_pair` is a batch of one; training
(:mod:`plueckernet.data.batches`) uses the same functions with random numbers drawn on its device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.data.fragments import Fragments, Stretches, gathered
from plueckernet.data.noise import Noise, NoiseDraws, noisy, with_noise
from plueckernet.data.pairs import LinePair, SimulatedPairs, masked_lines, padded_lines, real_rows
from plueckernet.data.random_source import RandomSource, SceneGenerators
from plueckernet.data.scan import Survey, choose_windows, surveys
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.lines import stack_lines
from plueckernet.geometry.pose import rotation_exp

__all__ = [
    "AnyProtocol",
    "LinePair",
    "Noise",
    "PairProtocol",
    "PaperProtocol",
    "ScanProtocol",
    "sample_pair",
    "sample_pairs",
    "unrelated_pair",
    "with_noise",
]


@dataclass(frozen=True)
class PaperProtocol:
    """Sec. 4.1 of the paper, on infinite lines.

    The source's directions follow the hemisphere rule. ``directed`` carries them over to the target, as the
    published numbers need; otherwise the rule is applied again in the target's frame.
    """

    directed: bool = True
    keep: float = 0.7  # fraction of lines kept on each side, independently
    angle: float = 45.0  # degrees; rotation about each axis within [0, angle]
    translation: float = 2.0  # m; within [-translation, translation] on each axis
    noise: Noise = field(default_factory=Noise)


@dataclass(frozen=True)
class AnyProtocol:
    """Any rotation, lines without direction; the noise does not depend on the frame."""

    keep: float = 0.7  # fraction of lines kept on each side, independently
    translation: float = 10.0  # m
    segments: bool = False  # keep the endpoints
    noise: Noise = field(default_factory=Noise)


@dataclass(frozen=True)
class ScanProtocol:
    """Two surveys of neighbouring parts: lines broken, missing, spurious; any rotation."""

    overlap: float = 0.5  # fraction of lines in common, if missing and spurious lines allow it
    translation: float = 10.0  # m
    survey: Survey = field(default_factory=Survey)


PairProtocol = PaperProtocol | AnyProtocol | ScanProtocol


def sample_pair(scene: LineSet, protocol: PairProtocol, seed: int | torch.Generator) -> LinePair:
    """Draw one pair from a scene of segments; the same seed gives the same pair."""
    return sample_pairs([scene], protocol, [seed])[0]


def sample_pairs(
    scenes: Sequence[LineSet], protocol: PairProtocol, seeds: Sequence[int | torch.Generator]
) -> list[LinePair]:
    """:func:`sample_pair` for each scene and its seed, all in one batch."""
    random = SceneGenerators([_generator(seed) for seed in seeds])
    batch = stack_lines(scenes).replaced(ids=None)
    if isinstance(protocol, ScanProtocol):
        return scan_pairs(batch, protocol, random).pairs()
    keep = torch.full((len(scenes),), protocol.keep, dtype=torch.float64)
    if isinstance(protocol, PaperProtocol):
        return paper_pairs(batch, protocol, keep, random).pairs()
    return any_pairs(batch, protocol, keep, random).pairs()


def unrelated_pair(
    first: LineSet, second: LineSet, protocol: PairProtocol, seed: int | torch.Generator
) -> tuple[LineSet, LineSet]:
    """The source of one scene and the target of another, which have nothing in common."""
    generator = _generator(seed)
    source = sample_pair(first, protocol, generator).source
    return source, sample_pair(second, protocol, generator).target


def paper_pairs(
    scenes: LineSet,
    protocol: PaperProtocol,
    keep: Float[Tensor, " b"],
    random: RandomSource,
    lines: int | None = None,
) -> SimulatedPairs:
    """One pair per scene of a padded batch.

    ``keep`` is the fraction of lines kept and replaces the protocol's. Maps have room for at most ``lines`` lines.
    """
    angles = random.uniform(random.each, 3) * math.radians(protocol.angle)
    about_x, about_y, about_z = rotation_exp(torch.diag_embed(angles)).unbind(1)
    shift = random.uniform(random.each, 3) * 2 - 1
    target_T_source = Pose(about_z @ about_y @ about_x, protocol.translation * shift)
    directed, real = scenes.infinite().on_hemisphere(), real_rows(scenes)
    source = noisy(directed, protocol.noise, None, NoiseDraws.draw(real, random))
    target = noisy(target_T_source @ directed, protocol.noise, None, NoiseDraws.draw(real, random))
    if not protocol.directed:
        source, target = source.on_hemisphere(), target.on_hemisphere()
    return _random_subsets((source, target), target_T_source, keep, random, lines)


def any_pairs(
    scenes: LineSet,
    protocol: AnyProtocol,
    keep: Float[Tensor, " b"],
    random: RandomSource,
    lines: int | None = None,
) -> SimulatedPairs:
    """One pair per scene of a padded batch; ``keep`` and ``lines`` as in :func:`paper_pairs`."""
    target_T_source = random.poses(protocol.translation)
    shown, real = scenes if protocol.segments else scenes.infinite(), real_rows(scenes)
    centre = scenes.centre()
    source = noisy(shown, protocol.noise, centre, NoiseDraws.draw(real, random))
    target = target_T_source @ noisy(shown, protocol.noise, centre, NoiseDraws.draw(real, random))
    source, target = (side.flipped(random.chance(real, 0.5)) for side in (source, target))
    return _random_subsets((source, target), target_T_source, keep, random, lines)


def scan_pairs(scenes: LineSet, protocol: ScanProtocol, random: RandomSource) -> SimulatedPairs:
    """One pair per scene of a padded batch of segments."""
    source, target = (surveys(scenes, protocol.survey, random) for _ in range(2))
    source, target = choose_windows(source, target, protocol.overlap, random)
    return surveyed_pairs(source, target, protocol.translation, random)


def surveyed_pairs(source: Fragments, target: Fragments, translation: float, random: RandomSource) -> SimulatedPairs:
    """The maps of two surveys of each scene: lines without direction, the target in any pose."""
    target_T_source = random.poses(translation)
    maps = [padded_lines(side.endpoints, side.real).flipped(random.chance(side.real, 0.5)) for side in (source, target)]
    return SimulatedPairs(maps[0], target_T_source @ maps[1], target_T_source, source.stretches(), target.stretches())


def _random_subsets(
    sides: tuple[LineSet, LineSet],
    target_T_source: Pose,
    keep: Float[Tensor, " b"],
    random: RandomSource,
    lines: int | None,
) -> SimulatedPairs:
    """Keep a fraction of row-matched lines on each side, in random order."""
    real = real_rows(sides[0])
    count = real.sum(-1)
    kept = torch.minimum((keep * count).round().clamp_min(1), count)
    maps, rows = zip(*(_subset(side, kept, random.order(real)[:, :lines]) for side in sides), strict=True)
    return SimulatedPairs(maps[0], maps[1], target_T_source, rows[0], rows[1])


def _subset(lines: LineSet, kept: Float[Tensor, " b"], rows: Int[Tensor, "b k"]) -> tuple[LineSet, Stretches]:
    """The given rows, of which the first ``kept`` are real."""
    real = torch.arange(rows.shape[1], device=rows.device) < kept[:, None]
    whole = torch.tensor([0.0, 1.0], dtype=kept.dtype, device=rows.device).expand(*rows.shape, 2)
    chosen = lines.mapped(lambda tensor: gathered(tensor, rows))
    return masked_lines(chosen, real), Stretches(rows, whole, real)


def _generator(seed: int | torch.Generator) -> torch.Generator:
    return seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
