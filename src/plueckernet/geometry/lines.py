"""Sets of 3D lines as one frozen, batched value; the only module that knows the order of the Plücker coordinates.

A line is a unit direction ``d`` and a moment ``m = p x d``, where ``p`` is any point on it; ``(d, m)`` and
``(-d, -m)`` are the same line. The six Plücker coordinates are ``(m, d)``, so the paper's Eq. (1) applies as printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from plueckernet.errors import InputError, ShapeError
from plueckernet.geometry.arrays import ArrayLike, as_floats, as_integers
from plueckernet.geometry.describing import segments_html
from plueckernet.geometry.pose import Pose, Similarity
from plueckernet.kernels.centres import line_centre
from plueckernet.kernels.library import compiled

_KNOWLEDGE = ("sigma", "views")  # what is known about each line beside where it is


@dataclass(frozen=True, eq=False, repr=False)
class LineSet:
    """``n`` lines, or a batch of such sets padded to one length.

    ``endpoints`` is set if the lines are segments, ``ids`` if the lines have numbers other than their index, and
    ``mask`` (True for real lines) if the set is padded. ``sigma`` is set if the noise of each line is known: the
    standard deviation of its position on each axis across it, in the unit of the map. ``views`` is set if it is known
    how many images or scans saw each line.
    """

    direction: Float[Tensor, "*batch n 3"]
    moment: Float[Tensor, "*batch n 3"]
    endpoints: Float[Tensor, "*batch n 2 3"] | None = None
    ids: Int[Tensor, "*batch n"] | None = None
    mask: Bool[Tensor, "*batch n"] | None = None
    sigma: Float[Tensor, "*batch n"] | None = None
    views: Int[Tensor, "*batch n"] | None = None

    # Construction

    @classmethod
    def from_segments(
        cls, endpoints: ArrayLike, ids: ArrayLike | None = None, sigma: ArrayLike | None = None
    ) -> LineSet:
        """Lines through pairs of points; equal or non-finite points raise :class:`InputError`.

        Args:
            endpoints: ``(*batch, n, 2, 3)`` or ``(*batch, n, 6)``: tensor, NumPy array or list.
            ids: A number for each line.
            sigma: The noise of each line, see :class:`LineSet`.
        """
        endpoints = as_floats(endpoints, "endpoints", ("n", 2, 3), ("n", 6))
        if endpoints.shape[-2:] != (2, 3):
            endpoints = endpoints.unflatten(-1, (2, 3))
        start, end = endpoints.unbind(-2)
        direction = _unit(end - start, "segment has no length")
        moment = torch.linalg.cross((start + end) / 2, direction)
        count = endpoints.shape[:-2]
        if ids is not None:
            ids = _one_each(as_integers(ids, "ids", count), "ids", count)
        if sigma is not None:
            sigma = _checked_sigma(_one_each(as_floats(sigma, "sigma", count).to(endpoints), "sigma", count))
        return LineSet(direction, moment, endpoints, ids, sigma=sigma)

    @classmethod
    def from_point_direction(cls, point: ArrayLike, direction: ArrayLike) -> LineSet:
        """Infinite lines through points ``(*batch, n, 3)``; directions need not be unit vectors."""
        point, direction = as_floats(point, "point", ("n", 3)), as_floats(direction, "direction", ("n", 3))
        if point.shape != direction.shape:
            raise ShapeError("direction", point.shape, direction.shape)
        direction = _unit(direction, "direction is zero")
        return LineSet(direction, torch.linalg.cross(point, direction))

    @classmethod
    def from_pluecker(cls, coordinates: ArrayLike) -> LineSet:
        """Infinite lines from ``(moment, direction)``, ``(*batch, n, 6)``, up to scale.

        Coordinates with ``m . d != 0`` do not describe a line; the moment is projected orthogonally to the direction.
        """
        coordinates = as_floats(coordinates, "coordinates", ("n", 6))
        moment, direction = coordinates[..., :3], coordinates[..., 3:]
        length = direction.norm(dim=-1, keepdim=True)
        direction = _unit(direction, "direction is zero")
        moment = moment / length
        return LineSet(direction, moment - (moment * direction).sum(-1, keepdim=True) * direction)

    # Properties

    def __len__(self) -> int:
        return self.direction.shape[-2]

    def __repr__(self) -> str:
        kind = "infinite lines" if self.endpoints is None else "segments"
        batch = "".join(f"{size} × " for size in self.direction.shape[:-2])
        known = [name for name in ("ids", "mask", *_KNOWLEDGE) if getattr(self, name) is not None]
        also = f", with {', '.join(known)}" if known else ""
        return f"LineSet({batch}{len(self)} {kind}{also})"

    def _repr_html_(self) -> str:
        """The segments from above, for notebooks."""
        drawn = None if self.endpoints is None else self.endpoints.reshape(-1, 2, 3)
        return segments_html(repr(self), drawn)

    def pluecker(self) -> Float[Tensor, "*batch n 6"]:
        """``(moment, direction)``, six numbers per line."""
        return torch.cat([self.moment, self.direction], -1)

    def footpoints(self, reference: Float[Tensor, "*batch 3"] | None = None) -> Float[Tensor, "*batch n 3"]:
        """The point of each line closest to ``reference`` (default: the origin)."""
        if reference is None:
            return torch.linalg.cross(self.direction, self.moment)
        centre = reference[..., None, :]
        moment = self.moment - torch.linalg.cross(centre.expand_as(self.moment), self.direction)
        return torch.linalg.cross(self.direction, moment) + centre

    def midpoints(self) -> Float[Tensor, "*batch n 3"]:
        """Midpoints of the segments."""
        return _middle(self._segments())

    def lengths(self) -> Float[Tensor, "*batch n"]:
        """Lengths of the segments."""
        start, end = self._segments().unbind(-2)
        return torch.linalg.vector_norm(end - start, dim=-1)

    def anchors(self, reference: Float[Tensor, "*batch 3"] | None = None) -> Float[Tensor, "*batch n 3"]:
        """One point per line: the midpoint of a segment, or the point of an infinite line closest to ``reference``."""
        return self.footpoints(reference) if self.endpoints is None else self.midpoints()

    def centre(self) -> Float[Tensor, "*batch 3"]:
        """Centre of the map: the mean midpoint of segments, or the least-squares closest point to infinite lines.

        If parallel lines do not determine it, the solution closest to the origin is returned.
        """
        if self.endpoints is not None:
            weight = self._weight()
            return (weight * self.midpoints()).sum(-2) / weight.sum(-2).clamp_min(1)
        d = self.direction
        known = not (d.requires_grad or self.moment.requires_grad) and self.mask is None  # nothing to differentiate
        if known and d.ndim == 2 and d.dtype == self.moment.dtype == torch.float64 and compiled(d, self.moment):
            return line_centre(d, self.moment)
        weight = self._weight()
        across = torch.eye(3, dtype=d.dtype, device=d.device) - d[..., :, None] * d[..., None, :]
        normal = (weight[..., None] * across).sum(-3)
        return (torch.linalg.pinv(normal, hermitian=True) @ (weight * self.footpoints()).sum(-2)[..., None])[..., 0]

    # Changed copies

    def moved_by(self, motion: Pose | Similarity) -> LineSet:
        """``motion @ lines``: the same lines after a rigid motion or a similarity."""
        direction = self.direction @ motion.rotation.mT
        moment = self.moment @ motion.rotation.mT
        if isinstance(motion, Similarity):
            moment = motion.scale[..., None, None] * moment
        moment = moment + torch.linalg.cross(motion.translation[..., None, :].expand_as(direction), direction)
        endpoints = None
        if self.endpoints is not None:
            endpoints = motion.act(self.endpoints.flatten(-3, -2)).unflatten(-2, (-1, 2))
        known = {"ids": self.ids, "mask": self.mask, "sigma": self.sigma, "views": self.views}
        if self.sigma is not None and isinstance(motion, Similarity):
            known["sigma"] = motion.scale[..., None] * self.sigma
        kept = {name: None if value is None else value.expand(direction.shape[:-1]) for name, value in known.items()}
        return LineSet(direction, moment, endpoints, **kept)

    def shifted(self, offset: ArrayLike) -> LineSet:
        """Subtract ``offset``, for example to remove the origin of a national grid.

        Segments are shifted by their endpoints, so a large offset costs no precision.
        """
        offset = as_floats(offset, "offset", (3,)).to(self.direction)
        if self.endpoints is not None:
            endpoints = self.endpoints - offset[..., None, None, :]
            moment = torch.linalg.cross(_middle(endpoints), self.direction)
            return self.replaced(endpoints=endpoints, moment=moment)
        shift = torch.linalg.cross(offset[..., None, :].expand_as(self.direction), self.direction)
        return self.replaced(moment=self.moment - shift)

    def scaled(self, factor: float) -> LineSet:
        """With all coordinates multiplied by a factor."""
        endpoints = None if self.endpoints is None else factor * self.endpoints
        sigma = None if self.sigma is None else factor * self.sigma
        return self.replaced(moment=factor * self.moment, endpoints=endpoints, sigma=sigma)

    def flipped(self, where: Bool[Tensor, "*batch n"]) -> LineSet:
        """The same lines, with the selected ones in the opposite direction."""
        sign = torch.where(where, -1.0, 1.0).to(self.direction.dtype)[..., None]
        endpoints = self.endpoints
        if endpoints is not None:
            endpoints = torch.where(where[..., None, None], endpoints.flip(-2), endpoints)
        return self.replaced(direction=sign * self.direction, moment=sign * self.moment, endpoints=endpoints)

    def on_hemisphere(self) -> LineSet:
        """The paper's rule (Sec. 3.1): the first non-zero component of the direction is positive."""
        x, y, z = self.direction.unbind(-1)
        return self.flipped((x < 0) | ((x == 0) & ((y < 0) | ((y == 0) & (z < 0)))))

    def infinite(self) -> LineSet:
        """The lines without their endpoints."""
        return self.replaced(endpoints=None)

    def replaced(self, **changes: Tensor | None) -> LineSet:
        """A copy with some fields replaced."""
        return LineSet(**(self.__dict__ | changes))

    def mapped(self, change: Callable[[Tensor], Tensor]) -> LineSet:
        """A copy with ``change`` applied to each tensor."""
        rest = self.endpoints, self.ids, self.mask, self.sigma, self.views
        changed = (None if value is None else change(value) for value in rest)
        return LineSet(change(self.direction), change(self.moment), *changed)

    def to(self, where: torch.device | torch.dtype | str) -> LineSet:
        """Move to a device or a floating dtype; ids and mask keep their types."""
        keep = isinstance(where, torch.dtype)
        if where == (self.direction.dtype if keep else "cpu" if self.direction.is_cpu else None) and self._is_uniform():
            return self
        return self.mapped(lambda tensor: tensor if keep and not tensor.is_floating_point() else tensor.to(where))

    def __getitem__(self, index: Int[Tensor, "*batch k"] | Bool[Tensor, " n"] | slice) -> LineSet:
        """A subset of one (unbatched) set; lines without ids get their index as id."""
        if self.direction.ndim != 2:
            raise InputError("only an unbatched LineSet can be indexed; index its tensors instead")
        if isinstance(index, Tensor) and index.dtype == torch.bool and index.shape == self.direction.shape[:1]:
            index = index.nonzero()[:, 0]  # once, not for each tensor
        rest = _arange(self) if self.ids is None else self.ids, self.mask, self.sigma, self.views
        endpoints = None if self.endpoints is None else self.endpoints[index]
        chosen = (None if value is None else value[index] for value in rest)
        return LineSet(self.direction[index], self.moment[index], endpoints, *chosen)

    # Private

    def _is_uniform(self) -> bool:
        """Whether all floating-point tensors have the type of the directions."""
        rest = self.moment, self.endpoints, self.sigma
        return all(value is None or value.dtype == self.direction.dtype for value in rest)

    def _segments(self) -> Tensor:
        if self.endpoints is None:
            raise InputError("these lines have no endpoints")
        return self.endpoints

    def _weight(self) -> Tensor:
        if self.mask is None:
            return torch.ones_like(self.direction[..., :1])
        return self.mask[..., None].to(self.direction.dtype)


def stack_lines(sets: Sequence[LineSet]) -> LineSet:
    """Pad unbatched sets to one length and stack them; ``mask`` marks the real lines.

    Endpoints are kept if all sets have them. Padding lines are the x axis, so all values are finite.
    """
    if not sets:
        raise InputError("no line sets to stack")
    longest = max(len(lines) for lines in sets)
    segments = all(lines.endpoints is not None for lines in sets)

    def stacked(tensors: list[Tensor]) -> Tensor:
        return torch.stack([pad(t, (0, 0) * (t.ndim - 1) + (0, longest - t.shape[0])) for t in tensors])

    mask = stacked([torch.ones(len(lines), dtype=torch.bool, device=lines.direction.device) for lines in sets])
    direction = stacked([lines.direction for lines in sets])
    x_axis = torch.tensor([1, 0, 0], dtype=direction.dtype, device=direction.device)
    return LineSet(
        direction=torch.where(mask[..., None], direction, x_axis),
        moment=stacked([lines.moment for lines in sets]),
        endpoints=stacked([lines._segments() for lines in sets]) if segments else None,
        ids=stacked([_arange(lines) if lines.ids is None else lines.ids for lines in sets]),
        mask=mask,
        **{name: stacked(tensors) for name in _KNOWLEDGE if (tensors := _of_all(sets, name)) is not None},
    )


def join_lines(sets: Sequence[LineSet]) -> LineSet:
    """The lines of several unbatched sets as one set, in their order.

    Endpoints, ids, sigma and views are kept if all sets have them. The frames and units have to be the same.
    """
    if not sets:
        raise InputError("no line sets to join")
    names = ("direction", "moment", "endpoints", "ids", *_KNOWLEDGE)
    sets = [lines if lines.mask is None else lines.replaced(mask=None)[lines.mask] for lines in sets]
    joined = {name: torch.cat(tensors) for name in names if (tensors := _of_all(sets, name)) is not None}
    return LineSet(**joined)


def _of_all(sets: Sequence[LineSet], name: str) -> list[Tensor] | None:
    """This field of all sets; None if one lacks it."""
    tensors = [getattr(lines, name) for lines in sets]
    return None if any(tensor is None for tensor in tensors) else tensors


def _one_each(values: Tensor, name: str, count: tuple[int, ...]) -> Tensor:
    if values.shape != count:
        raise ShapeError(name, count, values.shape)
    return values


def _checked_sigma(sigma: Tensor) -> Tensor:
    if not bool(((sigma > 0) & torch.isfinite(sigma)).all()):
        raise InputError("sigma: expected positive numbers")
    return sigma


def _middle(endpoints: Float[Tensor, "*batch n 2 3"]) -> Float[Tensor, "*batch n 3"]:
    """Of both ends; `mean` takes ten times as long."""
    start, end = endpoints.unbind(-2)
    return (start + end) / 2


def _arange(lines: LineSet) -> Tensor:
    return torch.arange(len(lines), device=lines.direction.device)


def _unit(vector: Tensor, complaint: str) -> Tensor:
    length = vector.norm(dim=-1)
    bad = ~(length > 0) | ~torch.isfinite(length)
    if bool(bad.any()):
        index = tuple(bad.nonzero()[0].tolist())
        raise InputError(f"line {index[-1]}: {complaint} or is not finite")
    return normalize(vector, dim=-1, eps=0.0)
