"""E57 files around any XML, with valid checksums."""

from __future__ import annotations

import struct


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]


def _crc32c(data: bytes) -> int:
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder = _TABLE[(remainder ^ byte) & 255] ^ (remainder >> 8)
    return remainder ^ 0xFFFFFFFF


def with_checksums(data: bytes) -> bytes:
    """The same pages with valid checksums, and the length of the file in the header."""
    pages = [data[start : start + 1020].ljust(1020, b"\0") for start in range(0, len(data), 1024)]
    if pages:
        pages[0] = pages[0][:16] + struct.pack("<Q", 1024 * len(pages)) + pages[0][24:]
    return b"".join(page + struct.pack(">I", _crc32c(page)) for page in pages)


def e57_around(xml: bytes) -> bytes:
    """An E57 file without points."""
    header = struct.pack("<8sIIQQQQ", b"ASTM-E57", 1, 0, 0, 48, len(xml), 1024)
    data = header + xml
    return with_checksums(b"".join(data[start : start + 1020] + bytes(4) for start in range(0, len(data), 1020)))
