"""How one scene becomes two line maps in different frames, with the answer.

Three protocols, each a frozen dataclass handed to :func:`sample_pair`:

* :class:`PaperProtocol`: small motion, noise in each side's own frame, random subsets (Sec. 4.1);
* :class:`AnyProtocol`: any rotation, unknown line directions, random subsets;
* :class:`ScanProtocol`: two surveys that cover neighbouring, partly overlapping parts of the scene.
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.data.scan import Survey, choose_windows, survey, surveyed_matches
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import rotation_exp


@dataclass(frozen=True, eq=False)
class LinePair:
    """Two line maps of one scene and how they belong together."""

    source: LineSet
    target: LineSet
    target_T_source: Pose
    matches: Int[Tensor, "k 2"]  # rows of source and target that show the same line

    @property
    def common(self) -> float:
        """Share of the lines of both sides that have a match on the other."""
        matched = sum(len(self.matches[:, side].unique()) for side in (0, 1))
        return matched / max(1, len(self.source) + len(self.target))


@dataclass(frozen=True)
class Noise:
    """The paper's noise on a line's footpoint and direction, each clipped."""

    position: float = 0.05  # m, one sigma on each axis
    position_limit: float = 0.25  # m
    direction: float = 2.0  # degrees, one sigma, about a random axis
    direction_limit: float = 5.0  # degrees


@dataclass(frozen=True)
class PaperProtocol:
    """Sec. 4.1 of the paper, on infinite lines.

    The source's directions follow the hemisphere rule. ``directed`` carries them over to the target, which is
    what the published numbers need; otherwise the rule is applied anew in the target's frame.
    """

    directed: bool = True
    keep: float = 0.7  # share of lines kept on each side, independently
    angle: float = 45.0  # degrees; rotation about each axis within [0, angle]
    translation: float = 2.0  # m; within [-translation, translation] on each axis
    noise: Noise = Noise()


@dataclass(frozen=True)
class AnyProtocol:
    """Any rotation, lines without direction; the noise does not depend on the frame."""

    keep: float = 0.7  # share of lines kept on each side, independently
    translation: float = 10.0  # m
    segments: bool = False  # keep the endpoints
    noise: Noise = Noise()


@dataclass(frozen=True)
class ScanProtocol:
    """Two surveys of neighbouring parts: lines broken, missing, invented; any rotation."""

    overlap: float = 0.5  # share of lines in common, as far as missing lines allow
    translation: float = 10.0  # m
    survey: Survey = field(default_factory=Survey)


Protocol = PaperProtocol | AnyProtocol | ScanProtocol


def sample_pair(scene: LineSet, protocol: Protocol, seed: int | torch.Generator) -> LinePair:
    """Draw one pair from a scene of segments; the same seed gives the same pair."""
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
    if isinstance(protocol, PaperProtocol):
        return _paper_pair(scene, protocol, generator)
    if isinstance(protocol, AnyProtocol):
        return _any_pair(scene, protocol, generator)
    return _scan_pair(scene, protocol, generator)


def unrelated_pair(
    first: LineSet, second: LineSet, protocol: Protocol, seed: int | torch.Generator
) -> tuple[LineSet, LineSet]:
    """The source of one scene and the target of another: nothing to be found."""
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
    source = sample_pair(first, protocol, generator).source
    return source, sample_pair(second, protocol, generator).target


def _paper_pair(scene: LineSet, protocol: PaperProtocol, generator: torch.Generator) -> LinePair:
    angles = torch.rand(3, generator=generator, dtype=torch.float64) * math.radians(protocol.angle)
    about_x, about_y, about_z = rotation_exp(torch.diag(angles))
    shift = torch.rand(3, generator=generator, dtype=torch.float64) * 2 - 1
    target_T_source = Pose(about_z @ about_y @ about_x, protocol.translation * shift)
    lines = scene.infinite().on_hemisphere()
    source = with_noise(lines, protocol.noise, None, generator)
    target = with_noise(target_T_source @ lines, protocol.noise, None, generator)
    if not protocol.directed:
        source, target = source.on_hemisphere(), target.on_hemisphere()
    return _random_subsets(source, target, target_T_source, protocol.keep, generator)


def _any_pair(scene: LineSet, protocol: AnyProtocol, generator: torch.Generator) -> LinePair:
    target_T_source = Pose.random(generator=generator, translation=protocol.translation)
    lines = scene if protocol.segments else scene.infinite()
    centre = scene.centre()
    source = with_noise(lines, protocol.noise, centre, generator)
    target = target_T_source @ with_noise(lines, protocol.noise, centre, generator)
    source, target = _random_signs(source, generator), _random_signs(target, generator)
    return _random_subsets(source, target, target_T_source, protocol.keep, generator)


def _scan_pair(scene: LineSet, protocol: ScanProtocol, generator: torch.Generator) -> LinePair:
    source = survey(scene, protocol.survey, generator)
    target = survey(scene, protocol.survey, generator)
    source, target = choose_windows(source, target, protocol.overlap, generator)
    target_T_source = Pose.random(generator=generator, translation=protocol.translation)
    return LinePair(
        source=_random_signs(source.lines(), generator),
        target=target_T_source @ _random_signs(target.lines(), generator),
        target_T_source=target_T_source,
        matches=surveyed_matches(source, target),
    )


def with_noise(
    lines: LineSet,
    noise: Noise,
    reference: Float[Tensor, "3"] | None,
    generator: torch.Generator,
) -> LineSet:
    """Move the point of each line nearest to ``reference`` (default: the origin) and turn the line there.

    Endpoints, where there are any, go along.
    """
    limit, spread = math.radians(noise.direction_limit), math.radians(noise.direction)
    offset = noise.position * _normal(len(lines), 3, generator)
    offset = offset.clamp(-noise.position_limit, noise.position_limit)
    angle = (spread * _normal(len(lines), 1, generator)).clamp(-limit, limit)
    axis = torch.nn.functional.normalize(_normal(len(lines), 3, generator), dim=-1)
    foot = lines.footpoints(reference)
    turn = rotation_exp(angle * axis)
    # About its own footpoint: x -> foot + offset + turn (x - foot), a pose of each line's own.
    moved = LineSet.from_point_direction(foot + offset, (turn @ lines.direction[..., None])[..., 0])
    if lines.endpoints is None:
        return moved
    arms = (lines.endpoints - foot[:, None]) @ turn.mT
    return moved.replaced(endpoints=(foot + offset)[:, None] + arms)


def _normal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64)


def _random_signs(lines: LineSet, generator: torch.Generator) -> LineSet:
    return lines.flipped(torch.rand(len(lines), generator=generator) < 0.5)


def _random_subsets(
    source: LineSet,
    target: LineSet,
    target_T_source: Pose,
    keep: float,
    generator: torch.Generator,
) -> LinePair:
    """Keep a share of row-matched lines on each side, in random order."""
    count = len(source)
    kept = max(1, round(keep * count))
    rows = [torch.randperm(count, generator=generator)[:kept] for _ in range(2)]
    places = [torch.full((count,), -1).scatter(0, row, torch.arange(kept)) for row in rows]
    both = (places[0] >= 0) & (places[1] >= 0)
    matches = torch.stack([place[both] for place in places], dim=-1)
    return LinePair(
        source=source[rows[0]].replaced(ids=None),
        target=target[rows[1]].replaced(ids=None),
        target_T_source=target_T_source,
        matches=matches[matches[:, 0].argsort()],
    )
