"""A photogrammetric map of a scene: edges are detected several times, broken and displaced; some are missing."""

import numpy as np
from jaxtyping import Float

from plueckernet.data.primitives import SceneSegments, Vectors, concatenate_segments, scattered


def reconstructed(segments: SceneSegments, rng: np.random.Generator, max_lines: int = 4000) -> SceneSegments:
    """The reconstructed scene; the two maps of a pair share its errors."""
    middle = segments.mean(axis=1)
    seen = _visibility(middle, rng)
    segments = segments[rng.random(len(segments)) < seen]
    copies = 1 + rng.poisson(np.exp(rng.uniform(np.log(0.1), np.log(4.0))), len(segments))
    rows = rng.permutation(np.repeat(np.arange(len(segments)), copies))[:max_lines]
    start, vector = segments[rows, 0], segments[rows, 1] - segments[rows, 0]
    # A copy shows a stretch of the edge, usually a long stretch.
    ends = np.sort(rng.beta(0.5, 0.5, (len(rows), 2)), axis=1)
    whole = rng.random(len(rows)) < 0.3
    ends[whole] = [0.0, 1.0]
    copy = start[:, None] + ends[..., None] * vector[:, None]
    blur = np.exp(rng.uniform(np.log(0.005), np.log(0.06)))
    copy = copy + blur * rng.normal(size=(len(rows), 1, 3)) + 0.5 * blur * rng.normal(size=copy.shape)
    noise = int(rng.uniform(0, 0.15) * len(rows))
    if not len(rows):
        return copy
    stray = scattered(rng, copy.mean(axis=1)[rng.integers(len(rows), size=noise)], np.ones((noise, 3)), (0.1, 1.5))
    return concatenate_segments([copy, stray])


def _visibility(middle: Vectors, rng: np.random.Generator) -> Float[np.ndarray, " n"]:
    """Probability of detection: high near a few places, low at a large distance from all of them."""
    if not len(middle):
        return np.zeros(0)
    places = middle[rng.integers(len(middle), size=int(rng.integers(1, 5)))]
    extent = max(float(np.ptp(middle, axis=0).max()), 1.0)
    distance = np.linalg.norm(middle[:, None] - places, axis=2).min(axis=1)
    return np.exp(-0.5 * (distance / (rng.uniform(0.2, 1.0) * extent)) ** 2).clip(0.05, 1.0)
