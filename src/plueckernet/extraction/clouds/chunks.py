"""The type of all readers' results: points in chunks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float64

Chunks = Iterator[Float64[np.ndarray, "_ 3"]]
