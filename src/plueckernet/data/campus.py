"""A large synthetic site: blocks of a town and floors of office buildings side by side."""

from __future__ import annotations

import math

import numpy as np

from plueckernet.data.primitives import SceneSegments, concatenate_segments, shifted, to_lines, to_segments, turned
from plueckernet.data.scenes import make_scene
from plueckernet.errors import InputError
from plueckernet.geometry import LineSet

_PITCH = 46.0  # m, between the middles of neighbouring scenes; they are at most 40 m wide
_KINDS = ("block", "block", "floor", "block")  # in turn


def campus(seed: int, lines: int = 100_000) -> LineSet:
    """A site of a given number of segments, in metres; every scene is turned about the vertical at random."""
    if lines < 1:
        raise InputError(f"campus: expected at least one line, got {lines}")
    rng = np.random.default_rng([seed, 17])
    scenes: list[SceneSegments] = []
    count = 0
    while count < lines:
        kind = _KINDS[len(scenes) % len(_KINDS)]
        scene = turned(_centred(to_segments(make_scene(kind, int(rng.integers(2**31))))), rng.uniform(0, 2 * np.pi))
        scenes.append(scene[: lines - count])
        count += len(scenes[-1])
    side = math.isqrt(len(scenes) - 1) + 1
    placed = [
        shifted(scene, _PITCH * (number % side), _PITCH * (number // side), 0.0) for number, scene in enumerate(scenes)
    ]
    return to_lines(concatenate_segments(placed))


def _centred(segments: SceneSegments) -> SceneSegments:
    middle = (segments.min(axis=(0, 1)) + segments.max(axis=(0, 1))) / 2
    return shifted(segments, -float(middle[0]), -float(middle[1]), 0.0)
