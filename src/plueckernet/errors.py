"""Errors and warnings of the package. Catch `PlueckernetError` to catch all errors."""

from collections.abc import Sequence
from pathlib import Path


class PlueckernetError(Exception):
    """Base class of all errors of this package."""


class InputError(PlueckernetError, ValueError):
    """An invalid argument or value."""


class ShapeError(InputError):
    """An array of the wrong shape.

    Attributes:
        name: The name of the argument.
        expected: The expected shape; a string names a free dimension, as in `("n", 6)`.
        actual: The shape received.
        others: Other shapes that would have been accepted.
    """

    def __init__(
        self,
        name: str,
        expected: Sequence[int | str],
        actual: Sequence[int],
        others: Sequence[Sequence[int | str]] = (),
    ) -> None:
        self.name = name
        self.expected = tuple(expected)
        self.actual = tuple(actual)
        self.others = tuple(tuple(other) for other in others)
        super().__init__(name, self.expected, self.actual, self.others)

    def __str__(self) -> str:
        shapes = " or ".join(map(_shape, (self.expected, *self.others)))
        return f"{self.name}: expected shape {shapes}, got {_shape(self.actual)}"


class FormatError(InputError):
    """A file that cannot be read; prints as `path:line: reason`.

    Attributes:
        path: The file.
        reason: What was found and what was expected.
        line: The line of the error, counted from 1, or None.
    """

    def __init__(self, path: str | Path, reason: str, line: int | None = None) -> None:
        self.path = Path(path)
        self.reason = reason
        self.line = line
        super().__init__(path, reason, line)

    def __str__(self) -> str:
        path = printable(str(self.path))
        place = path if self.line is None else f"{path}:{self.line}"
        return f"{place}: {self.reason}"


class DegenerateError(PlueckernetError):
    """Geometry without a unique solution, such as a pose from parallel lines."""


class MissingDependencyError(PlueckernetError, ImportError):
    """An optional package that is not installed; the message names the extra that installs it.

    Attributes:
        package: The package that could not be imported.
        extra: The extra of plueckernet that installs it.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(package, extra)

    def __str__(self) -> str:
        return f"{self.package} is not installed: pip install 'plueckernet[{self.extra}]'"


class WorkerLostError(PlueckernetError):
    """A task whose worker died again and again, such as one that needs more memory than there is.

    Attributes:
        how: How the worker died.
        attempts: How often the task was tried.
    """

    def __init__(self, how: str, attempts: int) -> None:
        self.how = how
        self.attempts = attempts
        super().__init__(how, attempts)

    def __str__(self) -> str:
        return f"its worker {self.how}, {self.attempts} times; perhaps it needs more memory than there is"


class UnitWarning(UserWarning):
    """The sizes of two maps suggest that they are in different units, and scale is not searched for."""


class BatchSizeWarning(UserWarning):
    """The device has too little memory for as many pairs of maps at once as was asked for; fewer are registered."""


def printable(name: str) -> str:
    """A file name that can be printed: bytes of it that are not UTF-8 are shown as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def _shape(shape: Sequence[int | str]) -> str:
    """A shape formatted as a tuple, with unquoted names of dimensions."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
