"""Answers that must not depend on unit and place, and real maps whose pose is known because they were moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.errors import InputError
from plueckernet.evaluation.documents import ResultDocument
from plueckernet.evaluation.metrics import pose_error
from plueckernet.evaluation.outcomes import is_right
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.rates import Rate
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.io import read_lines
from plueckernet.registration import register

MATCHERS = ("descriptors", "invariant")
TRIALS = 10  # poses of the reconstruction
_SEED = 61_000


@dataclass(frozen=True)
class RealMaps:
    """Two versions of one reconstruction under several poses, and a city against itself in another frame."""

    reconstruction: Rate  # within 1° and 1 % of the extent
    trials: tuple[tuple[float, float] | None, ...]  # degrees and displacement of the middle; None without a pose
    extent: float  # of the reconstruction
    city: tuple[float, float] | None  # degrees and m; None without a pose


@dataclass(frozen=True)
class InvarianceValues:
    """Changes in degrees and metres, and real maps by matcher."""

    changes: Mapping[str, float]  # largest change of the pose when both maps are scaled or moved
    real: Mapping[str, RealMaps]


def evaluate_invariance(real: Path | None = None) -> ResultDocument[InvarianceValues]:
    """Measure; ``real`` is a folder with line3dpp/ and cityjson/."""
    maps = {} if real is None else {matcher: real_maps(real, matcher) for matcher in MATCHERS}
    sources = provenance("plueckernet.evaluation.invariance", ["invariant"] if maps else [])
    return ResultDocument("invariance", sources.to_dict(), InvarianceValues(changes(), maps))


def changes() -> dict[str, float]:
    """Largest change of the pose when both maps are scaled or moved far away, in degrees and metres."""
    pair = sample_pair(make_scene("indoor", _SEED), ScanProtocol(overlap=0.6), _SEED)
    plain = _registered(pair.source, pair.target)
    largest: dict[str, float] = {}
    for factor in (0.001, 1000.0):
        grow = Similarity.from_pose(Pose.identity(), factor)
        scaled = _registered(grow @ pair.source, grow @ pair.target)
        largest[f"times {factor:g}"] = max(pose_error(Pose(scaled.rotation, scaled.translation / factor), plain))
    shift = torch.full((3,), 1e6, dtype=torch.float64)
    moved = _registered(pair.source.shifted(-shift), pair.target.shifted(-shift))
    centre = pair.source.centre()[None]
    displacement = (moved.act(centre + shift) - shift - plain.act(centre)).norm()
    largest["moved by 1e6"] = max(float(moved.angle_to(plain).rad2deg()), float(displacement))
    return largest


def _registered(source: LineSet, target: LineSet) -> Pose:
    pose = register(source, target, matcher="descriptors").rigid_pose
    if pose is None:
        raise InputError("a pair that has always been registered no longer is")
    return pose


def real_maps(folder: Path, matcher: str) -> RealMaps:
    """Line3D++ versions of one reconstruction under ten poses; a city against itself in another frame."""
    first, second = (read_lines(next(folder.glob(f"line3dpp/{day}*.txt"))) for day in ("2016-01-22", "2016-06-29"))
    extent = float((second.midpoints().amax(0) - second.midpoints().amin(0)).norm())
    trials = []
    for seed in range(TRIALS):
        pose = Pose.random(generator=torch.Generator().manual_seed(seed), translation=10.0)
        trials.append(_at_centre(register(first, pose @ second, matcher=matcher).rigid_pose, pose, second))
    within = Rate.of([is_right(error, (1.0, 0.01 * extent)) for error in trials])
    city = read_lines(next(folder.glob("cityjson/rotterdam*.json")))
    centre = city.centre()
    turn = Pose.random(generator=torch.Generator().manual_seed(1), translation=100.0)
    pose = Pose(turn.rotation, centre - turn.rotation @ centre + turn.translation)
    moved = _at_centre(register(city, pose @ city, matcher=matcher).rigid_pose, pose, city)
    return RealMaps(within, tuple(trials), extent, moved)


def _at_centre(pose: Pose | None, truth: Pose, lines: LineSet) -> tuple[float, float] | None:
    """Rotation error in degrees and displacement of the middle of the map."""
    if pose is None:
        return None
    centre = lines.centre()[None]
    return float(pose.angle_to(truth).rad2deg()), float((pose.act(centre) - truth.act(centre)).norm())
