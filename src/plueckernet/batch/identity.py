"""What a batch is: its pairs, the content of its maps, and how they are registered.

A batch continues only as the same batch, so that a folder never has rows of different runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plueckernet.batch.pairs import BatchPair
from plueckernet.errors import InputError, PlueckernetError
from plueckernet.io.files import check_regular
from plueckernet.version import __version__

_SCHEMA = 1
_WHOLE = 64 << 20  # bytes up to which the whole file is hashed
_ENDS = 16 << 20  # bytes of a larger file that are hashed at either end
Identity = dict[str, Any]


def batch_identity(pairs: Sequence[BatchPair], registration: Mapping[str, Any]) -> Identity:
    """Plain data that is equal for equal batches."""
    maps = sorted({path for pair in pairs for path in (pair.source, pair.target)})
    rows = [[str(pair.source), str(pair.target), pair.name, *filter(any, [pair.formats])] for pair in pairs]
    identity = {
        "schema": _SCHEMA,
        "version": __version__,
        "pairs": len(pairs),
        "list": hashlib.sha256(json.dumps(rows).encode()).hexdigest(),
        "registration": dict(registration),
        "maps": {str(path): fingerprint(path) for path in maps},
    }
    return json.loads(json.dumps(identity))  # as it is read back: tuples are lists


def fingerprint(path: Path) -> str | None:
    """A hash of a file, or of all files of a folder; None for what cannot be read.

    Of a file above 64 MiB the size and 16 MiB at either end are hashed.
    """
    try:
        check_regular(path)
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode(errors="backslashreplace"))
            _add_content(digest, file)
    except (OSError, PlueckernetError):
        return None
    return digest.hexdigest()


def _add_content(digest: Any, path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as handle:
        if size > _WHOLE:
            digest.update(handle.read(_ENDS))
            handle.seek(size - _ENDS)
        while block := handle.read(1 << 20):
            digest.update(block)


def check_same(earlier: Any, wanted: Identity, folder: Path, *, retry: bool) -> None:
    """Raise :class:`InputError` if a folder belongs to another batch; says what differs.

    With ``retry``, maps that could not be read then may have been mended.
    """
    advice = "continue with what it was begun with, or choose another folder"
    if not isinstance(earlier, dict) or earlier.get("schema") != _SCHEMA:
        raise InputError(f"{folder}: has results of another version; choose another folder")
    for key, what in (("version", "version of plueckernet"), ("list", "list of pairs"), ("pairs", "number of pairs")):
        if earlier.get(key) != wanted[key]:
            detail = "" if key == "list" else f" ({earlier.get(key)}, now {wanted[key]})"
            raise InputError(f"{folder}: was begun with another {what}{detail}; {advice}")
    difference = _first_difference(earlier.get("registration", {}), wanted["registration"])
    if difference is not None:
        raise InputError(f"{folder}: was begun with another registration: {difference}; {advice}")
    recorded = earlier.get("maps")
    if not isinstance(recorded, dict):
        raise InputError(f"{folder}: has results of another version; choose another folder")
    for path, mark in wanted["maps"].items():
        if recorded.get(path) != mark and not (retry and recorded.get(path) is None):
            mended = "; --retry registers pairs of maps that have become readable" if recorded.get(path) is None else ""
            raise InputError(
                f"{path}: has changed since the batch in {folder} was begun; choose another folder{mended}"
            )


def _first_difference(earlier: Any, wanted: Any, name: str = "") -> str | None:
    """The first entry in which two values differ, with both values; None if they are equal."""
    if isinstance(earlier, dict) and isinstance(wanted, dict):
        for key in sorted({*earlier, *wanted}):
            difference = _first_difference(earlier.get(key), wanted.get(key), f"{name}.{key}".strip("."))
            if difference is not None:
                return difference
        return None
    return None if earlier == wanted else f"{name} was {earlier!r}, now {wanted!r}"
