"""Strict parsing of TOML tables into dataclasses: unknown keys and wrong types raise with the file and the key."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from plueckernet.errors import FormatError, InputError
from plueckernet.io.files import read_text

_T = TypeVar("_T")


def read_tables(path: Path) -> dict[str, Any]:
    """A TOML file as nested dictionaries."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise FormatError(path, "not TOML: nested too deeply") from None
    except ValueError as error:
        raise FormatError(path, str(error)) from error


def override(tables: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """The tables with settings such as ``train.steps=100`` applied; a value that is not TOML is used as text."""
    changed = dict(tables)
    for setting in settings:
        key, equals, text = setting.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            raise InputError(f"--set {setting}: expected table.key=value")
        table = changed
        for name in names[:-1]:
            inner = table.get(name, {})
            if not isinstance(inner, Mapping):
                raise InputError(f"--set {setting}: {name} is not a table")
            table[name] = dict(inner)
            table = table[name]
        table[names[-1]] = _value(text.strip())
    return changed


def from_table(kind: type[_T], table: Any, key_path: str, path: Path) -> _T:
    """A dataclass, whose fields all have defaults, from the table named ``key_path``, such as ``train``."""
    if not isinstance(table, Mapping):
        raise FormatError(path, f"{key_path}: expected a table, got {table!r}")
    hints = get_type_hints(kind)
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise FormatError(path, f"unknown key {key_path}.{key}; available: {', '.join(known)}")
    values = {key: _checked(hints[key], value, f"{key_path}.{key}", path) for key, value in table.items()}
    try:
        return kind(**values)
    except InputError as error:
        raise FormatError(path, f"{key_path}: {error}") from error


def _checked(hint: Any, value: Any, key_path: str, path: Path) -> Any:
    """The value converted to the type hint: lists to tuples, integers to floats, tables to dataclasses."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return from_table(hint, value, key_path, path)
    if origin is Literal:
        fits = value in arguments
    elif origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        if len(kinds) == len(value):
            return tuple(
                _checked(k, v, f"{key_path}[{i}]", path) for i, (k, v) in enumerate(zip(kinds, value, strict=True))
            )
        fits = False
    elif hint is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    else:
        fits = type(value) is hint
    if not fits:
        raise FormatError(path, f"{key_path}: expected {_name(hint)}, got {value!r}")
    return value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def _name(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    return getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else str(hint)
