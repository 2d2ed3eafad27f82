"""Results as typed documents: frozen dataclasses that are written as JSON and read back without loss.

A file is ``{"name": …, "provenance": {…}, "values": {…}}``. Reading checks every key and every type, and names the
place of what does not fit. A key may be missing where the dataclass has a default: older files do not have it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from plueckernet.errors import FormatError
from plueckernet.io.atomic import atomic_write
from plueckernet.io.files import read_json as read_json_file

_V = TypeVar("_V")
_PLAIN = (str, int, bool, NoneType)


@dataclass(frozen=True)
class TableRow:
    """One row of the tables of numbers, as text."""

    what: str  # was measured, on how many pairs
    measured: str
    goal: str = ""


@dataclass(frozen=True)
class ResultDocument(Generic[_V]):
    """What was measured, by which sources."""

    name: str
    provenance: Mapping[str, Any]  # of :mod:`plueckernet.evaluation.provenance`, as plain data
    values: _V

    def to_dict(self) -> dict[str, Any]:
        """The document as plain data."""
        return {"name": self.name, "provenance": dict(self.provenance), "values": to_json(self.values)}


def write_result(path: Path, document: ResultDocument[Any]) -> None:
    """Write a document as JSON; a file that was there stays whole if writing fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as stream:
        stream.write(json.dumps(document.to_dict(), indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_result(path: Path, name: str, kind: type[_V]) -> ResultDocument[_V]:
    """Read a document of that name, whose values are a ``kind``."""
    content = read_json(path)
    if not isinstance(content, dict) or set(content) != {"name", "provenance", "values"}:
        raise FormatError(path, "expected a result with the keys name, provenance, values")
    if content["name"] != name:
        raise FormatError(path, f"expected the result {name!r}, found {content['name']!r}")
    return ResultDocument(name, content["provenance"], from_json(kind, content["values"], path))


def read_json(path: Path) -> Any:
    """Any JSON; a file that is not there or not JSON raises :class:`FormatError`."""
    try:
        return read_json_file(path)
    except FormatError as error:
        raise FormatError(path, f"not a readable result: {error.reason}", error.line) from error


def to_json(value: Any) -> Any:
    """Dataclasses, tuples and mappings as JSON has them; fields at their default None are written, too."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    return value


def from_json(kind: Any, value: Any, path: Path, place: str = "values") -> Any:
    """The opposite of :func:`to_json` for a type; what does not fit raises :class:`FormatError` with its place."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in (object, Any):
        return value
    if is_dataclass(kind):
        return _dataclass_from(kind, value, path, place)
    if origin in (Union, UnionType):
        options = [option for option in arguments if option is not NoneType]
        return None if value is None and NoneType in arguments else from_json(options[0], value, path, place)
    if origin is tuple and isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(kinds) == len(value):
            pairs = zip(kinds, value, strict=True)
            return tuple(from_json(entry, item, path, f"{place}[{i}]") for i, (entry, item) in enumerate(pairs))
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, dict):
        return {key: from_json(arguments[1], entry, path, f"{place}.{key}") for key, entry in value.items()}
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind in _PLAIN and type(value) is kind:
        return value
    raise FormatError(path, f"{place}: expected {getattr(kind, '__name__', kind)}, got {value!r:.60}")


def _dataclass_from(kind: Any, value: Any, path: Path, place: str) -> Any:
    names = [field.name for field in fields(kind)]
    if not isinstance(value, dict):
        raise FormatError(path, f"{place}: expected an object with {', '.join(names)}")
    needed = {field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING}
    wrong = sorted({*(set(value) - set(names)), *(needed - set(value))})
    if wrong:
        raise FormatError(path, f"{place}: unknown or missing: {', '.join(wrong)}")
    hints = get_type_hints(kind)
    content = {name: from_json(hints[name], value[name], path, f"{place}.{name}") for name in names if name in value}
    try:
        return kind(**content)
    except ValueError as error:
        raise FormatError(path, f"{place}: {error}") from error
