r"""Poses without matches, for maps whose matches are nearly all wrong: directions first, then translations by voting.

A rotation must map dominant directions of the source to dominant directions of the target. Two pairs of directions
determine it, up to signs. Under a rotation, a source line at ``a`` and a parallel target line ``q + s e`` coincide for
all translations ``t = q - R a + s e`` of a short interval of ``s``. Every pair of parallel lines votes for the cells
of a grid that this interval passes. The sum is the correlation of the two maps, separately for every direction.

Three precautions keep the pose of the largest overlap from always having most votes. Of a bundle of parallel lines,
only the longest votes. A cell counts by its excess over the mean ``m`` of the cells around it, in standard deviations
of chance votes, ``(v - m) / sqrt(m + 1)``. Last, the translation moves to the weighted least-squares solution of the
pairs that voted nearby, because a cell is several inlier distances wide.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.estimation.distinct import distinct_poses
from plueckernet.estimation.masks import places_above, places_below
from plueckernet.estimation.partners import line_arrays
from plueckernet.estimation.ransac import in_double
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.upright import heading, turn_about
from plueckernet.kernels.dominant_directions import direction_agreement
from plueckernet.kernels.dominant_directions import dominant_directions as compiled_directions
from plueckernet.kernels.library import compiled
from plueckernet.kernels.voters import bundle_heads, moved_translations
from plueckernet.kernels.votes import vote_peaks

_MAX_LINES = 200  # that vote, of each map: the longest
_BUNDLE_WIDTH = 1.5  # inlier distances within which parallel lines form one bundle
_MAX_DIRECTIONS = 6  # dominant ones of each map
_DIRECTION_SIGMA = 0.07  # rad; width of a dominant direction
_DIRECTION_SEPARATION = 0.175  # rad; between dominant directions
_MIN_DIRECTION_FRACTION = 0.02  # of the total length, in a dominant direction
_MAX_ANGLE_DIFFERENCE = 0.12  # rad; of two dominant directions, between the maps; also between distinct rotations
_MAX_COSINE = 0.9  # of two dominant directions that determine a rotation
_COMPARED_LINES = 60  # of each map, by whose directions rotations are ranked: the longest
_MAX_ROTATIONS = 48
_MAX_TURNS = 12  # about a known vertical
_TURN_PEAKS = 48  # of a turn about a known vertical: there are few turns
_GRID_SIZE = 64  # cells along each axis; a multiple of the block
_BLOCK_SIZE = 4  # cells along each axis of a block, by which the mean of the votes is computed
_EXTENT_QUANTILE = 0.9  # of the distances of the anchors from the origin: translations are searched up to their sum
_MIN_CELL_SIZE = 1.5  # inlier distances
_PEAKS = 12  # of a rotation
_ROWS_PER_PEAK = 8  # of the grid, the best ones, in which the peaks are searched
_PEAK_SEPARATION = 2  # cells, along some axis
_PAIR_DISTANCE = 1.5  # cells; of pairs that move the translation of a peak
_KERNEL_WIDTHS = (0.5, 0.35, 0.25, 0.2)  # cells; sigma of the weight of these pairs, step by step
_DAMPING = 0.01  # of the least-squares solution, in weights of a pair; parallel pairs do not determine it


def match_free_poses(
    source: AnchoredLines,
    target: AnchoredLines,
    threshold: InlierThreshold,
    count: int = 200,
    up: Float[Tensor, "3"] | None = None,
) -> Pose:
    """At most ``count`` poses ``target_T_source``, best first, accurate to about two inlier distances and the angle.

    The maps are centred and have a radius of about one. There are no poses if a map has a single dominant direction.
    Where the vertical ``up`` is known, they turn about it only, and a single horizontal direction suffices.
    The search runs on the CPU; the poses are on the device of the maps.
    """
    device = target.anchor.device
    source, target = voters(source, threshold), voters(target, threshold)
    rotations = _rotations(source, target) if up is None else _turns(source, target, up.to("cpu").float())
    if not len(rotations):
        return Pose.identity(0, device=str(device))
    extent = sum(float(lines.anchor.norm(dim=-1).quantile(_EXTENT_QUANTILE)) for lines in (source, target))
    cell_size = max(2 * extent / _GRID_SIZE, _MIN_CELL_SIZE * threshold.distance)
    peaks_each = _PEAKS if up is None else _TURN_PEAKS
    excess, cells, counts = _all_peaks(rotations, source, target, threshold, cell_size, peaks_each)
    rotations = rotations.repeat_interleave(counts, 0)
    translations = (cells + 1 - _GRID_SIZE / 2) * cell_size
    order = excess.argsort(descending=True, stable=True)[:count]
    poses = _moved_to_pairs(Pose(rotations[order], translations[order]), source, target, threshold, cell_size)
    return in_double(poses).to(device)


def voters(lines: AnchoredLines, threshold: InlierThreshold) -> AnchoredLines:
    """The longest lines of the bundles, longest first, in single precision on the CPU."""
    lines = lines.to("cpu").to(torch.float32)
    lines = lines[half_length_of(lines).argsort(descending=True, stable=True)[: 3 * _MAX_LINES]]
    width = InlierThreshold(_BUNDLE_WIDTH * threshold.distance, threshold.angle)
    if compiled():
        return lines[bundle_heads(line_arrays(lines), (width.distance, width.angle), _MAX_LINES)]
    identity = Pose.identity(1, dtype=torch.float32)
    in_bundle = pair_residuals(identity, lines, lines, width)[0].lt_(1).tril_(-1).sum(1)
    return lines[(in_bundle == 0).nonzero()[:_MAX_LINES, 0]]


def half_length_of(lines: AnchoredLines) -> Float[Tensor, " n"]:
    """Votes need an interval: infinite lines count as segments of the size of the map."""
    return torch.ones_like(lines.anchor[:, 0]) if lines.half_length is None else lines.half_length


# Rotations


def _rotations(source: AnchoredLines, target: AnchoredLines) -> Float[Tensor, "r 3 3"]:
    """Distinct rotations that map two dominant directions to two, best first by the agreement of all directions."""
    from_pairs, to_pairs = (_direction_pairs(dominant_directions(lines)) for lines in (source, target))
    to_pairs = torch.cat([to_pairs, to_pairs.flip(1)])
    to_pairs = torch.cat([to_pairs, to_pairs * torch.tensor([[1.0], [-1.0]])])
    to_pairs = torch.cat([to_pairs, -to_pairs])
    angles = [(pairs[:, 0] * pairs[:, 1]).sum(-1).clamp(-1, 1).acos() for pairs in (from_pairs, to_pairs)]
    from_row, to_row = ((angles[0][:, None] - angles[1]).abs() < _MAX_ANGLE_DIFFERENCE).nonzero().unbind(1)
    rotations = _frames(to_pairs)[to_row] @ _frames(from_pairs)[from_row].mT
    return _best_distinct(rotations, source, target, _MAX_ROTATIONS)


def _turns(source: AnchoredLines, target: AnchoredLines, up: Float[Tensor, "3"]) -> Float[Tensor, "r 3 3"]:
    """Distinct turns about ``up`` that map a dominant direction to one, best first by the agreement of all."""
    sides = []
    for lines in (source, target):
        directions = dominant_directions(lines)
        sides.append(directions[(directions @ up).abs() < _MAX_COSINE])
    slopes = [(directions @ up).abs().asin() for directions in sides]
    from_row, to_row = ((slopes[0][:, None] - slopes[1]).abs() < _MAX_ANGLE_DIFFERENCE).nonzero().unbind(1)
    turn = heading(sides[1][to_row], up) - heading(sides[0][from_row], up)
    rotations = turn_about(up, torch.cat([turn, turn + math.pi]))
    return _best_distinct(rotations, source, target, _MAX_TURNS)


def _best_distinct(
    rotations: Float[Tensor, "r 3 3"], source: AnchoredLines, target: AnchoredLines, count: int
) -> Float[Tensor, "k 3 3"]:
    agreement = _direction_agreement(rotations, source, target)
    at_origin = Pose(rotations, torch.zeros_like(rotations[:, 0]))
    return rotations[distinct_poses(at_origin, agreement, InlierThreshold(1.0, _MAX_ANGLE_DIFFERENCE), count)]


def dominant_directions(lines: AnchoredLines) -> Float[Tensor, "m 3"]:
    """Modes of the directions by length, each after three steps of mean shift; lines near a mode count for no other."""
    direction, weight = lines.lines.direction, half_length_of(lines).clone()
    least, max_cosine = _MIN_DIRECTION_FRACTION * float(weight.sum()), math.cos(_DIRECTION_SEPARATION)
    if compiled():
        limits = _DIRECTION_SIGMA, least, max_cosine, _MAX_DIRECTIONS
        return compiled_directions((direction, weight), *limits)
    kernel = _kernel(direction @ direction.mT)
    modes: list[Tensor] = []
    while len(modes) < _MAX_DIRECTIONS:
        mode = direction[(kernel @ weight).argmax()]
        for _ in range(3):
            cosine = direction @ mode
            mode = normalize((weight * _kernel(cosine) * cosine.sign()) @ direction, dim=0)
        cosine = direction @ mode
        if float(weight @ _kernel(cosine)) <= least:
            break
        modes.append(mode)
        weight *= cosine.abs() < max_cosine
    return torch.stack(modes) if modes else direction[:0]  # scattered lines have none


def _kernel(cosine: Tensor) -> Tensor:
    return (cosine.square() - 1).div_(2 * _DIRECTION_SIGMA**2).exp_()


def _direction_pairs(directions: Float[Tensor, "m 3"]) -> Float[Tensor, "p 2 3"]:
    rows = torch.triu_indices(len(directions), len(directions), 1)
    pairs = directions[rows.mT]
    return pairs[(pairs[:, 0] * pairs[:, 1]).sum(-1).abs() < _MAX_COSINE]


def _frames(pairs: Float[Tensor, "p 2 3"]) -> Float[Tensor, "p 3 3"]:
    """Orthonormal frames of pairs of directions, which split the error of the angle evenly."""
    plus = normalize(pairs[:, 0] + pairs[:, 1], dim=-1)
    minus = normalize(pairs[:, 0] - pairs[:, 1], dim=-1)
    return torch.stack([plus, minus, torch.linalg.cross(plus, minus)], -1)


def _direction_agreement(
    rotations: Float[Tensor, "r 3 3"], source: AnchoredLines, target: AnchoredLines
) -> Float[Tensor, " r"]:
    """How much of the source's long lines is parallel to the target's."""
    (direction, length), (other_direction, other_length) = (
        (lines.lines.direction[:_COMPARED_LINES], half_length_of(lines)[:_COMPARED_LINES].sqrt())
        for lines in (source, target)
    )
    if compiled():
        return direction_agreement(rotations, (direction, length), (other_direction, other_length), _DIRECTION_SIGMA)
    agreement = []
    for block in rotations.split(64):
        kernel = _kernel(direction @ block.mT @ other_direction.mT)  # (r, m, n)
        agreement.append((kernel @ other_length) @ length)
    return torch.cat(agreement)


# Translations


def _all_peaks(
    rotations: Float[Tensor, "r 3 3"],
    source: AnchoredLines,
    target: AnchoredLines,
    threshold: InlierThreshold,
    cell_size: float,
    count: int,
) -> tuple[Float[Tensor, " p"], Float[Tensor, "p 3"], Int[Tensor, " r"]]:
    """Excess and cells of the peaks of all rotations, one rotation after the other, and the number of each."""
    if compiled():
        parallel, limits = (threshold.angle, threshold.directed), (count, _ROWS_PER_PEAK * count)
        return vote_peaks(rotations, line_arrays(source), line_arrays(target), cell_size, parallel, limits)
    peaks = [_peaks(_votes(rotation, source, target, threshold, cell_size), count) for rotation in rotations]
    excess, cells = zip(*peaks, strict=True)
    return torch.cat(excess), torch.cat(cells), torch.tensor([len(peak_excess) for peak_excess in excess])


def _votes(
    rotation: Float[Tensor, "3 3"],
    source: AnchoredLines,
    target: AnchoredLines,
    threshold: InlierThreshold,
    cell_size: float,
) -> Float[Tensor, "x y z"]:
    """The votes of all parallel pairs on a grid of translations; none in the border cells, which catch the rest."""
    turned = source.lines.direction @ rotation.mT
    row, column = _parallel_rows(turned, target.lines.direction, threshold)
    half_lengths = half_length_of(source)[row], half_length_of(target)[column]
    longer, weight = torch.maximum(*half_lengths), torch.minimum(*half_lengths).sqrt_()
    middle = target.anchor[column] - (source.anchor @ rotation.mT)[row]
    count = (2 * longer / cell_size).ceil().long().clamp_(1, _GRID_SIZE)
    pair = torch.arange(len(row)).repeat_interleave(count)
    sample = torch.arange(len(pair)) - (count.cumsum(0) - count)[pair]
    step = (target.lines.direction[column] * (2 * longer / count)[:, None])[pair]
    start = (middle - target.lines.direction[column] * longer[:, None])[pair]
    cell = torch.addcmul(start, sample[:, None] + 0.5, step).div_(cell_size).add_(_GRID_SIZE / 2)
    x, y, z = cell.long().clamp_(0, _GRID_SIZE - 1).unbind(-1)
    votes = torch.zeros(_GRID_SIZE**3).index_add_(0, (x * _GRID_SIZE + y) * _GRID_SIZE + z, weight[pair])
    votes = votes.view(_GRID_SIZE, _GRID_SIZE, _GRID_SIZE)
    for axis in range(3):
        votes.select(axis, 0).zero_()
        votes.select(axis, -1).zero_()
    return votes


def _parallel_rows(
    turned: Float[Tensor, "m 3"], direction: Float[Tensor, "n 3"], threshold: InlierThreshold
) -> tuple[Int[Tensor, " p"], Int[Tensor, " p"]]:
    cosine = turned @ direction.mT
    places = places_above(cosine if threshold.directed else cosine.abs_(), math.cos(threshold.angle))
    return places // len(direction), places % len(direction)


def _peaks(votes: Float[Tensor, "x y z"], count: int) -> tuple[Float[Tensor, " p"], Float[Tensor, "p 3"]]:
    """Largest excess over chance and the cells, whose upper corners are the translations, best first."""
    size = _GRID_SIZE
    for axis in range(3):  # a peak on the border of two cells counts in full
        votes.narrow(axis, 0, size - 1).add_(votes.narrow(axis, 1, size - 1).clone())
    pooling, interpolation = _smoothing_matrices()
    mean = _along_axes(_along_axes(votes, pooling), interpolation)
    excess = (votes - mean).mul_(mean.add_(1).rsqrt_()).view(size * size, size)
    best, row = excess.amax(-1).topk(_ROWS_PER_PEAK * count)
    cells = torch.stack([row // size, row % size, excess[row].argmax(-1)], -1)
    close = (cells[:, None] - cells).abs().amax(-1) <= _PEAK_SEPARATION
    chosen = _separate(close, count)
    return best[chosen], cells[chosen].float()


@cache
def _smoothing_matrices() -> tuple[Float[Tensor, "size blocks"], Float[Tensor, "blocks size"]]:
    """Means over windows of three blocks, and their linear interpolation; the product is a moving mean."""
    cells, centres = torch.arange(_GRID_SIZE), torch.arange(_BLOCK_SIZE / 2 - 0.5, _GRID_SIZE, _BLOCK_SIZE)
    distance = (cells[:, None] - centres).abs() / _BLOCK_SIZE
    return (distance < 1.5) / (3.0 * _BLOCK_SIZE), (1 - distance).clamp_min(0).mT.contiguous()


def _along_axes(grid: Float[Tensor, "x y z"], matrix: Float[Tensor, "a b"]) -> Float[Tensor, "u v w"]:
    """The grid multiplied by a matrix along each of its axes."""
    for _ in range(3):  # each product moves the next axis to the end
        grid = (grid.reshape(-1, grid.shape[-1]) @ matrix).view(*grid.shape[:2], -1).movedim(-1, 0)
    return grid


def _moved_to_pairs(
    poses: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold, cell_size: float
) -> Pose:
    """Translations at the weighted least-squares solution of the pairs that are close, in a few narrowing steps."""
    distance, widths = _PAIR_DISTANCE * cell_size, [width * cell_size for width in _KERNEL_WIDTHS]
    if compiled():
        start, limits = (poses.rotation, poses.translation), (distance, threshold.angle)
        lines = line_arrays(source), line_arrays(target)
        return Pose(poses.rotation, moved_translations(start, *lines, limits, widths, _DAMPING))
    pose, row, column = _close_rows(poses, source, target, InlierThreshold(distance, threshold.angle))
    direction, translation = target.lines.direction[column], poses.translation
    across = torch.eye(3) - direction[:, :, None] * direction[:, None]
    turned = (poses.rotation @ source.anchor.mT).mT[pose, row]
    offset = (across @ (target.anchor[column] - turned)[:, :, None])[:, :, 0]
    length = torch.minimum(half_length_of(source)[row], half_length_of(target)[column]).sqrt_()
    for width in widths:
        residual = offset - (across @ translation[pose][:, :, None])[:, :, 0]
        weight = length * (residual.square().sum(-1) / (-2 * width**2)).exp_()
        normal = _DAMPING * torch.eye(3).repeat(len(translation), 1, 1)
        normal.index_add_(0, pose, weight[:, None, None] * across)
        right = torch.zeros_like(translation).index_add_(0, pose, weight[:, None] * residual)
        translation = translation + torch.linalg.solve(normal, right[:, :, None])[:, :, 0]
    return Pose(poses.rotation, translation)


def _close_rows(
    poses: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold
) -> tuple[Int[Tensor, " p"], Int[Tensor, " p"], Int[Tensor, " p"]]:
    """Pose, source row and target row of all pairs within the threshold."""
    size, places, block = len(source) * len(target), [], 4
    for start in range(0, poses.rotation.shape[0], block):
        residuals = pair_residuals(poses[start : start + block], source, target, threshold)
        places.append(places_below(residuals, 1.0) + start * size)
    place = torch.cat(places)
    return place // size, place % size // len(target), place % len(target)


def _separate(close: Bool[Tensor, "n n"], count: int) -> list[int]:
    """Greedily the first rows that are close to no earlier chosen row."""
    matrix, chosen = close.numpy(), list[int]()
    remaining = np.ones(len(matrix), dtype=bool)
    while remaining.any() and len(chosen) < count:
        chosen.append(int(remaining.argmax()))
        remaining &= ~matrix[chosen[-1]]
    return chosen
