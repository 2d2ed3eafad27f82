"""Reading whole small files, only regular ones, and making folders: every failure is an error of ours."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from plueckernet.errors import FormatError, InputError


def check_regular(path: Path) -> None:
    """Raise for pipes, sockets and devices, on which reading could wait or never end; folders and files pass."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise FormatError(path, (error.strerror or str(error)).lower()) from error
    except ValueError as error:  # a zero byte
        raise FormatError(path, f"not the name of a file: {error}") from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise FormatError(path, "not a regular file but a pipe, socket or device; copy its content to a file")


def read_bytes(path: Path) -> bytes:
    """The content of a regular file."""
    check_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise FormatError(path, (error.strerror or str(error)).lower()) from error


def read_text(path: Path) -> str:
    """The content of a regular file in UTF-8, with or without a byte order mark."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(path, "not text in UTF-8", data.count(b"\n", 0, error.start) + 1) from None


def read_json(path: Path) -> Any:
    """The value of a JSON file."""
    return parsed_json(read_text(path), path)


def parsed_json(text: str, path: str | Path) -> Any:
    """The value of JSON; ``path`` is for messages."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(path, f"not JSON: {error.msg} (column {error.colno})", error.lineno) from None
    except RecursionError:
        raise FormatError(path, "not JSON: nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise FormatError(path, f"not JSON: {error}") from None


def make_folder(path: Path) -> None:
    """Make a folder for outputs, with those above it, if it does not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be created: {error.strerror or error}") from error
