"""Errors raised by the package. Catch `PlueckernetError` to catch them all."""

from collections.abc import Sequence
from pathlib import Path


class PlueckernetError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(PlueckernetError, ValueError):
    """An argument or a value that cannot be used."""


class ShapeError(InputError):
    """An array whose shape is not the expected one.

    Attributes:
        name: The argument, as the caller knows it.
        expected: The shape asked for; a string names a free dimension, as in `("n", 6)`.
        actual: The shape received.
    """

    def __init__(self, name: str, expected: Sequence[int | str], actual: Sequence[int]) -> None:
        self.name = name
        self.expected = tuple(expected)
        self.actual = tuple(actual)
        super().__init__(name, self.expected, self.actual)

    def __str__(self) -> str:
        return f"{self.name}: expected shape {_shape(self.expected)}, got {_shape(self.actual)}"


class FormatError(InputError):
    """A file that cannot be read as what it claims to be; prints as `path:line: reason`.

    Attributes:
        path: The file.
        reason: What was found and what was expected.
        line: The line in the file, counted from 1, where one is to blame.
    """

    def __init__(self, path: str | Path, reason: str, line: int | None = None) -> None:
        self.path = Path(path)
        self.reason = reason
        self.line = line
        super().__init__(path, reason, line)

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.reason}"


class DegenerateError(PlueckernetError):
    """Geometry that does not determine an answer, such as a pose from parallel lines."""


class MissingDependencyError(PlueckernetError, ImportError):
    """An optional package that is not installed; the message names the extra that brings it.

    Attributes:
        package: The package that could not be imported.
        extra: The extra of this package that installs it.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(package, extra)

    def __str__(self) -> str:
        return f"{self.package} is not installed: pip install 'plueckernet[{self.extra}]'"


def _shape(shape: Sequence[int | str]) -> str:
    """Write a shape as Python writes a tuple, with named dimensions unquoted."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
