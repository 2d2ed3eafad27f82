"""Batches of pairs for training, drawn from padded scenes on the device that trains on them.

The functions of :mod:`plueckernet.data.protocols` and :mod:`plueckernet.data.fragments` make them. This module draws
the strength of every distortion for each pair, so that training covers a wider range than the tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.data.fragments import (
    MIN_LENGTH,
    Breaks,
    Fragments,
    broken,
    displaced,
    gathered,
    half_vectors,
    spurious,
)
from plueckernet.data.noise import NoiseDraws
from plueckernet.data.pairs import PairBatch, SceneBatch, SimulatedPairs, padded_lines, real_rows
from plueckernet.data.protocols import AnyProtocol, PaperProtocol, any_pairs, paper_pairs, surveyed_pairs
from plueckernet.data.random_source import RandomSource
from plueckernet.geometry import LineSet
from plueckernet.geometry.pose import rotation_exp

__all__ = ["PairBatch", "SceneBatch", "mixed_batch", "paper_batch"]

_PIECES = 3  # most fragments of a line
_MIN_LINES = 24.0  # of the neighbourhood that a pair is drawn from
_TRANSLATION = 10.0  # m
_PAPER = PaperProtocol()
_SURVEYED = (0.6, 1.0)  # fraction of the lines that a survey sees
_APART = (0.0, 0.9)  # distance of the middles of two surveys, in widths
_REMOTE = (0.6, 0.95)  # the same of surveys that have little in common
_SPARSEST = 0.1  # smallest fraction of its lines, the longest, that a sparse survey keeps


@dataclass(frozen=True)
class Mixture:
    """Which pairs training sees, beside the scenes they are drawn from."""

    keep: tuple[float, float] = (0.15, 1.0)  # fraction of the lines that each side keeps, lowest and highest
    surveys: float = 0.6  # fraction of pairs that are surveys of neighbouring places
    remote: float = 0.0  # fraction of surveys that have little in common
    sparse: float = 0.0  # fraction of surveys that record only their longest lines, down to a tenth of them


@dataclass(frozen=True, eq=False)
class _Window:
    """A square prism per scene, without ends: what a survey covers."""

    axes: Float[Tensor, "b 3 2"]  # across it
    centre: Float[Tensor, "b 3"]
    half_width: Float[Tensor, " b"]  # m

    def clipped(self, fragments: Fragments) -> Fragments:
        """What lies inside."""
        for axis in self.axes.unbind(-1):
            middle = (self.centre * axis).sum(-1)
            fragments = fragments.within(axis, middle - self.half_width, middle + self.half_width)
        return fragments


def paper_batch(
    scenes: SceneBatch, lines: int, keep: tuple[float, float], random: RandomSource, protocol: PaperProtocol = _PAPER
) -> PairBatch:
    """:class:`~plueckernet.data.protocols.PaperProtocol`: infinite lines, small motion.

    Maps have at most ``lines`` lines. Each side keeps the fraction ``keep`` (lowest and highest) of its scene's lines;
    where that would be more than ``lines``, a random subset of the scene takes its place.
    """
    kept = random.uniform(random.each, low=keep[0], high=keep[1])
    subscene = _random_subscene(scenes.padded(lines), lines, keep[0], kept, random)
    return paper_pairs(subscene, protocol, kept, random, lines).batch()


def mixed_batch(scenes: SceneBatch, lines: int, mixture: Mixture, infinite: bool, random: RandomSource) -> PairBatch:
    """Random subsets and neighbouring surveys of scenes, any rotation, lines undirected, noise of any strength.

    Pairs that are no surveys are drawn like :class:`~plueckernet.data.protocols.AnyProtocol`.
    """
    scenes = scenes.padded(lines)
    scenes = SceneBatch(_warped(scenes.endpoints, random), scenes.real)
    survey = random.chance(random.each, mixture.surveys)
    centre, radius = _neighbourhood(scenes, survey, lines, random)
    recorded = _neighbouring_surveys(scenes, centre, radius, lines, mixture, random)
    kept = random.uniform(random.each, low=mixture.keep[0], high=mixture.keep[1])
    near = (scenes.endpoints.mean(-2) - centre[:, None]).norm(dim=-1) <= radius[:, None]
    near_lines = SceneBatch(scenes.endpoints, scenes.real & near)
    subscene = _random_subscene(near_lines, lines, mixture.keep[0], kept, random)
    subsets = any_pairs(subscene, AnyProtocol(segments=True, translation=_TRANSLATION), kept, random, lines)
    pairs = recorded.chosen(survey, subsets).batch()
    if not infinite:
        return pairs
    return PairBatch(pairs.source.infinite(), pairs.target.infinite(), pairs.correspondence, pairs.target_T_source)


# Scenes


def _random_subscene(
    scenes: SceneBatch, lines: int, min_keep: float, keep: Float[Tensor, " b"], random: RandomSource
) -> LineSet:
    """The scenes; large scenes are reduced to a random subset, of which the fraction ``keep`` is at most ``lines``.

    Cutting the maps to ``lines`` instead would leave fewer lines in common than ``keep`` says. ``min_keep``
    bounds ``keep``, and with it the number of rows that are needed.
    """
    rows = random.order(scenes.real)[:, : max(lines, math.ceil(lines / min_keep))]
    count = torch.minimum(scenes.real.sum(-1), (lines / keep).long())
    real = torch.arange(rows.shape[1], device=rows.device) < count[:, None]
    return padded_lines(gathered(scenes.endpoints, rows), real)


def _warped(endpoints: Float[Tensor, "b s 2 3"], random: RandomSource) -> Float[Tensor, "b s 2 3"]:
    """Stretched scenes, three in ten of them sheared: few places have only right angles."""
    stretch = torch.diag_embed((0.2 * random.normal(random.each, 3)).exp())
    strength = torch.where(random.chance(random.each, 0.3), 0.2, 0.0)[:, None, None]
    shear = torch.eye(3, dtype=endpoints.dtype, device=endpoints.device) + strength * random.normal(random.each, 3, 3)
    return endpoints @ (stretch @ shear)[:, None]


def _neighbourhood(
    scenes: SceneBatch, survey: Bool[Tensor, " b"], lines: int, random: RandomSource
) -> tuple[Float[Tensor, "b 3"], Float[Tensor, " b"]]:
    """The midpoint of a line of each scene, and the radius about it that holds a random number of lines."""
    midpoints, real = scenes.endpoints.mean(-2), scenes.real
    chosen = random.uniform(real).masked_fill(~real, -1.0).argmax(-1)
    centre = gathered(midpoints, chosen[:, None])[:, 0]
    distance = (midpoints - centre[:, None]).norm(dim=-1).masked_fill(~real, torch.inf)
    wanted = random.log_uniform(random.each, low=max(_MIN_LINES, lines / 6), high=2.5 * lines).long()
    # Half of the random subsets are of whole scenes, as the paper's are.
    count = real.sum(-1)
    wanted = torch.where(~survey & random.chance(random.each, 0.5), count, wanted)
    last = torch.minimum(wanted, count).clamp_min(1) - 1
    return centre, distance.sort(-1).values.gather(-1, last[:, None])[:, 0].clamp_min(0.5)


# Surveys


def _neighbouring_surveys(
    scenes: SceneBatch,
    centre: Float[Tensor, "b 3"],
    radius: Float[Tensor, " b"],
    lines: int,
    mixture: Mixture,
    random: RandomSource,
) -> SimulatedPairs:
    """Two surveys of neighbouring places; each sees a random subset of the lines."""
    scene = padded_lines(scenes.endpoints, scenes.real)
    seen = random.uniform(random.each, low=_SURVEYED[0], high=_SURVEYED[1])
    recorded = [
        _longest(_survey(scene, window, seen, random), lines, mixture.sparse, random)
        for window in _windows(centre, radius, mixture.remote, random)
    ]
    return surveyed_pairs(recorded[0], recorded[1], _TRANSLATION, random)


def _windows(
    centre: Float[Tensor, "b 3"], radius: Float[Tensor, " b"], remote: float, random: RandomSource
) -> tuple[_Window, _Window]:
    """The windows of two surveys, with common axes, mostly upright, and less than their width apart."""
    yaw = math.tau * random.uniform(random.each, 1)
    upright = rotation_exp(yaw * torch.tensor([0.0, 0.0, 1.0], dtype=yaw.dtype, device=yaw.device))
    tilted = random.chance(random.each, 0.2)[:, None, None]
    axes = torch.where(tilted, random.poses(0.0).rotation, upright)[..., :2]  # (b, 3, 2)
    heading = math.tau * random.uniform(random.each)
    heading = (axes * torch.stack([heading.cos(), heading.sin()], -1)[:, None]).sum(-1)  # (b, 3)
    apart = random.uniform(random.each, low=_APART[0], high=_APART[1])
    if remote:
        far = random.uniform(random.each, low=_REMOTE[0], high=_REMOTE[1])
        apart = torch.where(random.chance(random.each, remote), far, apart)
    offset = (radius * apart)[:, None] * heading
    return _Window(axes, centre - offset, radius), _Window(axes, centre + offset, radius)


def _survey(scene: LineSet, window: _Window, seen: Float[Tensor, " b"], random: RandomSource) -> Fragments:
    """What a survey records inside its window: fragments, moved and turned; some lines are missing, some spurious."""
    fragments = window.clipped(broken(scene, _breaks(scene, seen, random)))
    # Some surveys record no short lines.
    min_length = random.log_uniform(random.each, low=MIN_LENGTH, high=0.6)
    min_length = torch.where(random.chance(random.each, 0.3), min_length, MIN_LENGTH)[:, None]
    fragments = fragments.with_real(fragments.recorded(min_length))
    strength = random.log_uniform(random.each, low=0.1, high=1.5)[:, None, None]
    fragments = displaced(fragments, 0.04 * strength, 1.5 * strength, NoiseDraws.draw(fragments.real, random))
    return _some_spurious(fragments, window.half_width, random)


def _breaks(scene: LineSet, seen: Float[Tensor, " b"], random: RandomSource) -> Breaks:
    """Split the lines that are seen into equal pieces, lose a little of each at its ends and move the ends."""
    length, real = scene.lengths(), real_rows(scene)
    real = real & (random.uniform(real) < seen[:, None])
    spacing = random.log_uniform(random.each, low=1.5, high=30.0)[:, None]  # m, mean distance between breaks
    pieces = 1 + random.poisson(length / spacing, real).clamp_max(_PIECES - 1)
    pieces = pieces.repeat_interleave(_PIECES, -1)
    number = torch.arange(pieces.shape[1], device=pieces.device).expand_as(pieces)
    place = number % _PIECES
    real = real.repeat_interleave(_PIECES, -1) & (place < pieces)
    lost = random.uniform(random.each, high=0.4)[:, None, None] * random.uniform(real, 2)
    offset = random.uniform(random.each, high=0.1)[:, None, None] * random.normal(real, 2)
    return Breaks(number // _PIECES, place, pieces, real, torch.zeros_like(lost), lost, offset)


def _some_spurious(fragments: Fragments, radius: Float[Tensor, " b"], random: RandomSource) -> Fragments:
    """Some fragments put elsewhere, half of them turned: the scene does not have them."""
    real = fragments.real
    false = random.uniform(real) < random.uniform(random.each, high=0.25)[:, None]
    offset = 0.3 * radius[:, None, None] * random.normal(real, 3)
    half_vector = half_vectors(fragments)
    axis = normalize(random.normal(real, 3), dim=-1)
    turned = 2 * (axis * half_vector).sum(-1, keepdim=True) * axis - half_vector  # by 180 degrees
    half_vector = torch.where(random.chance(real, 0.5)[..., None], half_vector, turned)
    return spurious(fragments, offset, half_vector).chosen(false, fragments)


def _longest(fragments: Fragments, lines: int, sparse: float, random: RandomSource) -> Fragments:
    """The longest fragments, as many as there is room for or as a sparse survey has, in random order."""
    length = half_vectors(fragments).norm(dim=-1).masked_fill(~fragments.real, -1.0)
    rows = length.topk(lines, dim=-1).indices
    longest = fragments.gathered(rows)
    if sparse:
        density = random.log_uniform(random.each, low=_SPARSEST, high=1.0)
        count = torch.where(random.chance(random.each, sparse), density, 1.0) * longest.real.sum(-1)
        count = count.clamp_min(_MIN_LINES)[:, None]
        longest = longest.with_real(longest.real & (torch.arange(lines, device=rows.device) < count))
    return longest.gathered(random.order(longest.real))
