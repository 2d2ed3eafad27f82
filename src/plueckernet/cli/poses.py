"""Poses in files: a result of `register`, or a 4x4 matrix as text, as CloudCompare reads and writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plueckernet.geometry.similarity import Transform


def read_pose(path: Path) -> Transform:
    """``target_T_source`` of a result, or a matrix; a failed registration raises :class:`FormatError`."""
    from plueckernet.errors import FormatError
    from plueckernet.io.files import read_bytes
    from plueckernet.io.matrices import read_matrix
    from plueckernet.result import RegistrationResult

    if not read_bytes(path).lstrip().startswith(b"{"):
        return read_matrix(path)
    result = RegistrationResult.load(path)
    if result.target_T_source is None:
        raise FormatError(path, f"this registration has no pose: {result.reason}")
    return result.target_T_source
