"""Writing arrays as rows of text, fast and exact."""

from __future__ import annotations

from typing import TextIO

import numpy as np
from jaxtyping import Shaped

_ROWS_AT_ONCE = 4096


def write_rows(handle: TextIO, template: str, rows: Shaped[np.ndarray, "n k"]) -> None:
    """Write each row with a `%` template that has one placeholder per column.

    `%r` writes the shortest text that reads back as the same float64. One formatting call writes many rows, which is
    several times faster than one call per row.
    """
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        handle.write(template * len(block) % tuple(block.ravel().tolist()))
