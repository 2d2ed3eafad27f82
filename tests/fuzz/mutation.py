"""Mutations of files: of their bytes, their numbers and their lines."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_BYTES = (0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x20, 0x2C)
_NUMBERS = (
    b"0", b"-1", b"1", b"nan", b"inf", b"-inf", b"1e308", b"1e-320", b"1e999", b"2147483648", b"4294967295",
    b"9223372036854775807", b"18446744073709551616", b"99999999999999999999999", b"1,5", b"", b"0x10", b"1_0", b"\xff",
    b"[]", b"{}", b"null", b"true", b'"a"', b"+", b"-", b".", b"1" * 5000, b"\xd9\xa3",
)  # fmt: skip
_WORDS = re.compile(rb"[^\s,;:\[\]{}()\"'=]+")
_MAX_BYTES = 1 << 16  # longer files take more time and find nothing else


def mutated(seeds: Sequence[bytes], generator: random.Random) -> bytes:
    """One of the seeds after one to six random mutations."""
    data = generator.choice(seeds)
    for _ in range(generator.choice((1, 1, 1, 2, 3, 6))):
        data = generator.choice(_MUTATIONS)(data, seeds, generator)
    return data[:_MAX_BYTES]


def _flip(data: bytes, _: Sequence[bytes], generator: random.Random) -> bytes:
    if not data:
        return b"\0"
    place = generator.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << generator.randrange(8)]) + data[place + 1 :]


def _set(data: bytes, _: Sequence[bytes], generator: random.Random) -> bytes:
    """Some equal bytes, such as a count of 2**32 - 1."""
    place, count = generator.randrange(len(data) + 1), generator.choice((1, 2, 4, 8))
    return data[:place] + bytes([generator.choice(_BYTES)]) * count + data[place + count :]


def _number(data: bytes, _: Sequence[bytes], generator: random.Random) -> bytes:
    """Another value for one of the words of a text."""
    words = list(_WORDS.finditer(data[:20_000]))
    if not words:
        return data
    word = generator.choice(words)
    return data[: word.start()] + generator.choice(_NUMBERS) + data[word.end() :]


def _cut(data: bytes, _: Sequence[bytes], generator: random.Random) -> bytes:
    return data[: generator.randrange(len(data) + 1)]


def _remove(data: bytes, _: Sequence[bytes], generator: random.Random) -> bytes:
    place = generator.randrange(len(data) + 1)
    return data[:place] + data[place + generator.choice((1, 2, 8, 64)) :]


def _repeat(data: bytes, _: Sequence[bytes], generator: random.Random) -> bytes:
    place, size = generator.randrange(len(data) + 1), generator.choice((1, 4, 16, 64, 512))
    return data[:place] + data[place : place + size] * generator.choice((2, 3, 100)) + data[place + size :]


def _splice(data: bytes, seeds: Sequence[bytes], generator: random.Random) -> bytes:
    other = generator.choice(seeds)
    return data[: generator.randrange(len(data) + 1)] + other[generator.randrange(len(other) + 1) :]


def _lines(data: bytes, _: Sequence[bytes], generator: random.Random) -> bytes:
    """Two lines exchanged, or one removed."""
    rows = data[:20_000].split(b"\n")
    first, second = generator.randrange(len(rows)), generator.randrange(len(rows))
    rows[first], rows[second] = rows[second], rows[first]
    if generator.random() < 0.3:
        del rows[first]
    return b"\n".join(rows) + data[20_000:]


_MUTATIONS: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    _flip, _flip, _set, _set, _number, _number, _number, _cut, _remove, _repeat, _splice, _lines,
)  # fmt: skip
