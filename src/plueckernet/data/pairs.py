"""Pairs of line maps with pose and matches: a single pair, a padded batch, and the result of the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from plueckernet.data.fragments import Stretches, chosen, correspondence, surveyed_matches
from plueckernet.geometry import LineSet, Pose


@dataclass(frozen=True, eq=False)
class LinePair:
    """Two line maps of one scene, the pose between them and their matches."""

    source: LineSet
    target: LineSet
    target_T_source: Pose
    matches: Int[Tensor, "k 2"]  # rows of source and target that show the same line

    @property
    def common(self) -> float:
        """Fraction in common: of the lines of both sides, those that have a match on the other side."""
        matched = sum(len(self.matches[:, side].unique()) for side in (0, 1))
        return matched / max(1, len(self.source) + len(self.target))

    def of_rows(self, source_rows: Int[Tensor, " r"], target_rows: Int[Tensor, " s"]) -> LinePair:
        """Some rows of either side, and the matches among them."""
        maps, columns = [], []
        for side, (lines, rows) in enumerate(((self.source, source_rows), (self.target, target_rows))):
            places = torch.full((len(lines),), -1).scatter(0, rows, torch.arange(len(rows)))
            maps.append(lines[rows].replaced(ids=None))
            columns.append(places[self.matches[:, side]])
        matches = torch.stack(columns, -1)
        return LinePair(maps[0], maps[1], self.target_T_source, matches[(matches >= 0).all(-1)])


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Pairs of padded line maps, and which of their lines match."""

    source: LineSet  # (b, m)
    target: LineSet  # (b, n)
    correspondence: Bool[Tensor, "b m n"]
    target_T_source: Pose  # (b,)

    def to(self, device: torch.device | str) -> PairBatch:
        """The same pairs on a device."""
        return PairBatch(
            self.source.to(device),
            self.target.to(device),
            self.correspondence.to(device),
            self.target_T_source.to(device),
        )


@dataclass(frozen=True, eq=False)
class SceneBatch:
    """Scenes as padded segments."""

    endpoints: Float[Tensor, "b s 2 3"]
    real: Bool[Tensor, "b s"]

    def __len__(self) -> int:
        return len(self.real)

    def padded(self, lines: int) -> SceneBatch:
        """With room for at least that many lines."""
        missing = max(0, lines - self.real.shape[1])
        return SceneBatch(pad(self.endpoints, (0, 0, 0, 0, 0, missing)), pad(self.real, (0, missing)))


@dataclass(frozen=True, eq=False)
class SimulatedPairs:
    """Padded maps of a batch of scenes, and the stretch of the scene's line that each row shows."""

    source: LineSet  # (b, m)
    target: LineSet  # (b, n)
    target_T_source: Pose  # (b,)
    source_rows: Stretches  # (b, m)
    target_rows: Stretches  # (b, n)

    def chosen(self, where: Bool[Tensor, " b"], other: SimulatedPairs) -> SimulatedPairs:
        """These pairs where the mask is True, the other ones elsewhere."""
        pose, other_pose = self.target_T_source, other.target_T_source
        return SimulatedPairs(
            _chosen_lines(where, self.source, other.source),
            _chosen_lines(where, self.target, other.target),
            Pose(
                chosen(where, pose.rotation, other_pose.rotation),
                chosen(where, pose.translation, other_pose.translation),
            ),
            self.source_rows.chosen(where[:, None], other.source_rows),
            self.target_rows.chosen(where[:, None], other.target_rows),
        )

    def batch(self) -> PairBatch:
        """With all rows compared to all rows, as training needs it."""
        matches = correspondence(self.source_rows, self.target_rows)
        return PairBatch(self.source, self.target, matches, self.target_T_source)

    def pairs(self) -> list[LinePair]:
        """Single pairs, without padding."""
        flat = surveyed_matches(self.source_rows, self.target_rows)
        scene = flat[:, 0] // max(1, self.source_rows.real.shape[1])
        places = [rows.real.cumsum(-1).flatten() - 1 for rows in (self.source_rows, self.target_rows)]
        matches = torch.stack([place[flat[:, side]] for side, place in enumerate(places)], -1)
        return [
            LinePair(
                source=_unpadded(self.source, self.source_rows.real, number),
                target=_unpadded(self.target, self.target_rows.real, number),
                target_T_source=self.target_T_source[number],
                matches=matches[scene == number],
            )
            for number in range(len(self.source_rows.real))
        ]


def padded_lines(endpoints: Float[Tensor, "b n 2 3"], real: Bool[Tensor, "b n"]) -> LineSet:
    """Segments of a padded batch as lines; padding is the x axis."""
    vector = endpoints[:, :, 1] - endpoints[:, :, 0]
    usable = real & (vector.norm(dim=-1) > 1e-6)
    direction = torch.where(usable[..., None], normalize(vector, dim=-1), _x_axis(endpoints))
    endpoints = torch.where(real[..., None, None], endpoints, 0.0)
    return LineSet(direction, torch.linalg.cross(endpoints.mean(-2), direction), endpoints, mask=real)


def masked_lines(lines: LineSet, real: Bool[Tensor, "b n"]) -> LineSet:
    """The same batch with another mask; padding becomes the x axis."""
    direction = torch.where(real[..., None], lines.direction, _x_axis(lines.direction))
    endpoints = None if lines.endpoints is None else torch.where(real[..., None, None], lines.endpoints, 0.0)
    return LineSet(direction, torch.where(real[..., None], lines.moment, 0.0), endpoints, mask=real)


def real_rows(lines: LineSet) -> Bool[Tensor, "b n"]:
    """Which rows of a batch are no padding."""
    return torch.ones_like(lines.direction[..., 0], dtype=torch.bool) if lines.mask is None else lines.mask


def _chosen_lines(where: Bool[Tensor, " b"], first: LineSet, second: LineSet) -> LineSet:
    """Lines of batches of segments, map by map of one or the other."""
    names = ("direction", "moment", "endpoints", "mask")
    return LineSet(**{name: chosen(where, getattr(first, name), getattr(second, name)) for name in names})


def _unpadded(lines: LineSet, real: Tensor, number: int) -> LineSet:
    return lines.replaced(ids=None, mask=None).mapped(lambda tensor: tensor[number, real[number]])


def _x_axis(like: Tensor) -> Float[Tensor, "3"]:
    return torch.tensor([1.0, 0.0, 0.0], dtype=like.dtype, device=like.device)
