"""The best partner of each line under poses, among all lines of another map.

Residuals are those of :func:`~plueckernet.estimation.scoring.pair_residuals`. The kernel keeps no more than the best of
them, and takes the differences of anchors before it squares them, which is more precise than the matrix products.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines, InlierThreshold, pair_residuals, row_squares
from plueckernet.geometry.pose import Pose
from plueckernet.kernels import partners as kernel
from plueckernet.kernels.library import compiled
from plueckernet.kernels.partners import LineArrays, Partners

SPACING_LINES = 256  # whose neighbours say how far lines are apart; the median of so many is accurate to a few percent


def best_squares(
    poses: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold
) -> Float[Tensor, "h m"]:
    """Squared residual, in thresholds, of each source line and its best partner in the target."""
    if _is_compiled(poses, source, target):
        pose = poses.rotation, poses.translation
        return kernel.best_squares(pose, line_arrays(source), line_arrays(target), _numbers(threshold))
    count, size = poses.rotation.shape[0], max(1, 8 * BLOCK_ENTRIES // max(1, len(target) * len(source)))
    blocks = [poses[start : start + size] for start in range(0, max(1, count), size)]
    return torch.cat([pair_residuals(block, source, target, threshold).amin(2) for block in blocks])


def best_partners(poses: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold) -> Partners:
    """The best partners of the lines of both maps, under each pose."""
    if _is_compiled(poses, source, target):
        pose = poses.rotation, poses.translation
        return kernel.partners(pose, line_arrays(source), line_arrays(target), _numbers(threshold))
    count, size = poses.rotation.shape[0], max(1, 8 * BLOCK_ENTRIES // max(1, len(target) * len(source)))
    blocks = []
    for start in range(0, max(1, count), size):
        squares = pair_residuals(poses[start : start + size], source, target, threshold)
        blocks.append((*squares.min(2), *squares.min(1)))
    return Partners(*(torch.cat(values) for values in zip(*blocks, strict=True)))


def line_spacing(lines: AnchoredLines, threshold: InlierThreshold) -> float:
    """Median distance of a line to its nearest neighbour of similar direction, in threshold distances.

    That of some lines, spread evenly, stands for that of all. The neighbours are found in single precision. Their
    distances are then computed without cancellation, so that the order of operations, which differs from device to
    device, does not change the inlier threshold.
    """
    count = min(len(lines), SPACING_LINES)
    arrays = lines.anchor, lines.lines.direction
    if (
        compiled(*arrays)
        and all(array.dtype == torch.float64 for array in arrays)
        and not (threshold.directed or threshold.slope)
    ):
        return kernel.line_spacing(*arrays, lines.half_length, count, (threshold.distance, threshold.angle))
    sample = torch.arange(count, device=lines.anchor.device) * len(lines) // max(1, count)
    nearest = _nearest_others(lines, sample, threshold)
    half_length = None
    if lines.half_length is not None:
        half_length = lines.half_length[sample] + lines.half_length[nearest]
    directions = lines.lines.direction[sample], lines.lines.direction[nearest]
    offset = lines.anchor[nearest] - lines.anchor[sample]
    return float(row_squares(directions, offset, half_length, threshold).median().sqrt())


def _nearest_others(lines: AnchoredLines, rows: Int[Tensor, " k"], threshold: InlierThreshold) -> Int[Tensor, " k"]:
    """The row of the line nearest to each of some lines, other than itself, in single precision."""
    single, nearest = lines.to(torch.float32), []
    identity = Pose.identity(1, dtype=torch.float32, device=str(rows.device))
    for block in rows.split(max(1, 8 * BLOCK_ENTRIES // len(lines))):
        squares = pair_residuals(identity, single[block], single, threshold)[0]
        squares[torch.arange(len(block)), block] = torch.inf
        nearest.append(squares.argmin(1))
    return torch.cat(nearest)


def line_arrays(lines: AnchoredLines) -> LineArrays:
    """What kernels know of lines, in single precision."""
    half_length = None if lines.half_length is None else lines.half_length.float()
    return LineArrays(lines.anchor.float(), lines.lines.direction.float(), half_length)


def _is_compiled(poses: Pose, source: AnchoredLines, target: AnchoredLines) -> bool:
    tensors = poses.rotation, poses.translation, source.anchor, target.anchor
    return all(tensor.dtype == torch.float32 for tensor in tensors) and len(target) > 0 and compiled(*tensors)


def _numbers(threshold: InlierThreshold) -> tuple[float, float, float, bool]:
    return threshold.distance, threshold.angle, threshold.slope, threshold.directed
