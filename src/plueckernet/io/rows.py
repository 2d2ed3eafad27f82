"""Writing arrays as rows of text, fast and exact."""

from __future__ import annotations

from typing import TextIO

import numpy as np
from jaxtyping import Shaped

_ROWS_AT_ONCE = 4096


def write_rows(handle: TextIO, template: str, rows: Shaped[np.ndarray, "n k"]) -> None:
    """Write each row by a `%` template with one place per column.

    `%r` writes the shortest text that reads back as the same float64. Many rows go through one formatting call,
    which is several times faster than one call a row.
    """
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        handle.write(template * len(block) % tuple(block.ravel().tolist()))
