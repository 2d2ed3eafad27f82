"""E57 files around any XML, with valid checksums."""

from __future__ import annotations

import struct


def _crc32c(data: bytes) -> int:
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


def e57_around(xml: bytes) -> bytes:
    """An E57 file without points."""
    pages = -(-(48 + len(xml)) // 1020)
    header = struct.pack("<8sIIQQQQ", b"ASTM-E57", 1, 0, 1024 * pages, 48, len(xml), 1024)
    data = (header + xml).ljust(1020 * pages, b"\0")
    blocks = [data[start : start + 1020] for start in range(0, len(data), 1020)]
    return b"".join(block + struct.pack(">I", _crc32c(block)) for block in blocks)
