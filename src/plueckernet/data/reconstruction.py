"""What photogrammetry makes of a scene: edges found several times over, broken, a little off, some not at all."""

import numpy as np
from jaxtyping import Float

from plueckernet.data.primitives import Segments, Vectors, joined, scattered


def reconstructed(segments: Segments, rng: np.random.Generator, most: int = 4000) -> Segments:
    """A map of the scene that both sides of a pair share, with all its blemishes."""
    middle = segments.mean(axis=1)
    seen = _visibility(middle, rng)
    segments = segments[rng.random(len(segments)) < seen]
    copies = 1 + rng.poisson(np.exp(rng.uniform(np.log(0.1), np.log(4.0))), len(segments))
    rows = rng.permutation(np.repeat(np.arange(len(segments)), copies))[:most]
    start, way = segments[rows, 0], segments[rows, 1] - segments[rows, 0]
    # A copy shows some stretch of the edge, mostly a long one.
    ends = np.sort(rng.beta(0.5, 0.5, (len(rows), 2)), axis=1)
    whole = rng.random(len(rows)) < 0.3
    ends[whole] = [0.0, 1.0]
    copy = start[:, None] + ends[..., None] * way[:, None]
    blur = np.exp(rng.uniform(np.log(0.005), np.log(0.06)))
    copy = copy + blur * rng.normal(size=(len(rows), 1, 3)) + 0.5 * blur * rng.normal(size=copy.shape)
    noise = int(rng.uniform(0, 0.15) * len(rows))
    if not len(rows):
        return copy
    stray = scattered(rng, copy.mean(axis=1)[rng.integers(len(rows), size=noise)], np.ones((noise, 3)), (0.1, 1.5))
    return joined([copy, stray])


def _visibility(middle: Vectors, rng: np.random.Generator) -> Float[np.ndarray, " n"]:
    """Chance to be found: high near a few places, low far from all of them."""
    if not len(middle):
        return np.zeros(0)
    places = middle[rng.integers(len(middle), size=int(rng.integers(1, 5)))]
    extent = max(float(np.ptp(middle, axis=0).max()), 1.0)
    distance = np.linalg.norm(middle[:, None] - places, axis=2).min(axis=1)
    return np.exp(-0.5 * (distance / (rng.uniform(0.2, 1.0) * extent)) ** 2).clip(0.05, 1.0)
