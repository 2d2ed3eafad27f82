"""Refusal of XML that could reach the network or other files, before any XML parser sees it.

A document type declaration (`<!DOCTYPE`) may name external entities, which a parser fetches from the network or from
other files, and internal ones, which expand without end. No format of line maps or scans needs one. The bytes are
searched instead of parsed, so that the check does not depend on how a parser reads them. That is sound only for
encodings in which ASCII characters are ASCII bytes, so all others are refused, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from plueckernet.io.source import Source, shown

_CHUNK = 1 << 20  # bytes
_HEAD = 1024  # bytes in which the XML declaration ends
_DOCTYPE = b"<!DOCTYPE"
_DECLARATION = re.compile(rb"<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([^\"']*)[\"']")
_ASCII_SUPERSETS = re.compile(
    r"utf-?8|us-ascii|ascii|latin-?1|iso[-_]?8859[-_]?\d{1,2}|(windows-|cp)125\d", re.IGNORECASE
)


def check_xml(source: Source) -> None:
    """Raise a `FormatError` if the XML file has a DOCTYPE or an encoding that could hide one."""
    check_xml_bytes(_file_chunks(source), source)


def check_xml_bytes(chunks: Iterable[bytes], source: Source) -> None:
    """The same check of XML within another file, given as consecutive pieces."""
    seen = b""  # the end of the previous pieces, in which a DOCTYPE may begin
    line = 1
    first = True
    for chunk in chunks:
        data = seen + chunk
        if first and len(data) >= _HEAD:
            _check_encoding(data[:_HEAD], source)
            first = False
        place = data.upper().find(_DOCTYPE)
        if place >= 0:
            at = line + data.count(b"\n", 0, place)
            raise source.error("XML with a DOCTYPE, which could reach other files or the network; remove it", at)
        keep = _HEAD if first else len(_DOCTYPE) - 1
        line += data.count(b"\n", 0, max(0, len(data) - keep))
        seen = data[-keep:]
    if first:
        _check_encoding(seen, source)


def _check_encoding(head: bytes, source: Source) -> None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head:
        raise source.error("XML in UTF-16 or UTF-32; save it as UTF-8")
    if not head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        raise source.error("not XML: it does not start with `<`", 1)
    declared = _DECLARATION.search(head)
    name = "utf-8" if declared is None else declared[1].decode("ascii", errors="replace")
    if not _ASCII_SUPERSETS.fullmatch(name):
        raise source.error(f"XML in the encoding {shown(name)}; save it as UTF-8", 1)


def _file_chunks(source: Source) -> Iterator[bytes]:
    with source.path.open("rb") as handle:
        while chunk := handle.read(_CHUNK):
            yield chunk
