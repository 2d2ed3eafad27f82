"""Reading lists of NumPy arrays from pickles without unpickling.

A pickle is a program, and Python's unpickler calls any function that it names. This reader implements only the
instructions that a list of numeric arrays needs and refuses everything else. It never looks up functions or classes by
their names, and it creates arrays directly from their bytes.
"""

from __future__ import annotations

import codecs
import pickletools
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Shaped

from plueckernet.errors import FormatError
from plueckernet.io.files import read_bytes
from plueckernet.io.source import shown

Order = Literal["<", ">", "=", "|"]
NumericArray = Shaped[np.ndarray, "..."]

# Old and new names of the functions in pickles of arrays.
_NDARRAY, _DTYPE = "numpy ndarray", "numpy dtype"
_RECONSTRUCT = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
_FROMBUFFER = ("numpy.core.numeric _frombuffer", "numpy._core.numeric _frombuffer")
_ENCODE, _NO_BYTES = "_codecs encode", "__builtin__ bytes"  # how protocol 2 writes bytes and empty bytes
_NAMES = frozenset((_NDARRAY, _DTYPE, _ENCODE, _NO_BYTES, *_RECONSTRUCT, *_FROMBUFFER))

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "STRING", "BINSTRING", "SHORT_BINSTRING",
    "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8",
))  # fmt: skip
_INSTRUCTIONS = {known.code.encode("latin1"): known for known in pickletools.opcodes}
_IGNORED = frozenset(("PROTO", "FRAME"))
_MARK = object()
_MAX_REUSE = 2  # bytes of arrays for each byte of the file; a memo can repeat them

_CODES = frozenset(f"{kind}{size}" for kind, sizes in {"f": "248", "i": "1248", "u": "1248"}.items() for size in sizes)
_ORDERS: dict[str | bytes, Order] = {"<": "<", ">": ">", "=": "=", "|": "|", b"<": "<", b">": ">", b"=": "=", b"|": "|"}


def read_arrays(path: Path) -> list[NumericArray]:
    """The arrays of a pickled list of numeric arrays, or the slices of one array along its first axis.

    Raises:
        FormatError: The file has any other content. Nothing in it is executed.
    """
    data = read_bytes(path)
    try:
        value = _Machine().run(data)
    except _RefusedError as error:
        raise FormatError(path, f"not a pickle of plain arrays: {error}") from error
    except Exception as error:  # the standard library's reader raises many kinds of errors for damaged instructions
        raise FormatError(path, f"damaged pickle: {type(error).__name__}: {error}") from error
    if isinstance(value, _PickledArray) and value.content is not None and value.content.ndim:
        return list(value.content)
    if not isinstance(value, list | tuple):
        raise FormatError(path, f"expected a list of arrays, found {type(value).__name__.strip('_')}")
    arrays = [entry.content for entry in value if isinstance(entry, _PickledArray) and entry.content is not None]
    if len(arrays) != len(value):
        raise FormatError(path, "expected a list of arrays and nothing else")
    if sum(array.nbytes for array in arrays) > _MAX_REUSE * len(data):
        raise FormatError(path, "not a pickle of plain arrays: it repeats arrays")
    return arrays


class _RefusedError(Exception):
    """An instruction, name or value that a list of arrays does not need."""


@dataclass(frozen=True)
class _Name:
    """The name of a function or class, which is never looked up."""

    text: str


@dataclass
class _Dtype:
    """A numeric type; a later instruction may set its byte order."""

    code: str
    order: Order = "="

    def built(self) -> np.dtype[Any]:
        """The NumPy type."""
        return np.dtype(self.code).newbyteorder(self.order)


@dataclass
class _PickledArray:
    """An array whose content a later instruction may set."""

    content: NumericArray | None = None


def _instructions(data: bytes) -> Iterator[tuple[str, Any]]:
    """Name and argument of each instruction, decoded by the standard library."""
    stream = BytesIO(data)
    while code := stream.read(1):
        known = _INSTRUCTIONS.get(code)
        if known is None:
            raise _RefusedError(f"the byte {code!r} is not an instruction")
        if known.name == "STRING":  # bytes of Python 2, which the library decodes as ASCII
            yield known.name, _python2_bytes(stream.readline())
        else:
            yield known.name, None if known.arg is None else known.arg.reader(stream)


def _python2_bytes(line: bytes) -> bytes:
    """The bytes of a quoted string with escapes."""
    quoted = line.strip()
    if len(quoted) < 2 or quoted[:1] not in (b"'", b'"') or quoted[-1:] != quoted[:1]:
        raise _RefusedError("a string without quotes")
    return codecs.escape_decode(quoted[1:-1])[0]


class _Machine:
    """The stack machine of pickles, restricted to the instructions of lists of arrays."""

    def __init__(self) -> None:
        self.used = 0  # bytes of all arrays so far
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        """Interpret the program and return its result."""
        for name, argument in _instructions(data):
            if name == "STOP":
                return self.top(1)[0]
            self.step(name, argument)
            if self.used > _MAX_REUSE * len(data):
                raise _RefusedError("it repeats arrays")
        raise _RefusedError("it has no end")

    def step(self, name: str, argument: Any) -> None:
        """Interpret one instruction."""
        if name in _IGNORED:
            return
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name == "MARK":
            self.stack.append(_MARK)
        elif name in _GATHERING or name in ("APPEND", "APPENDS"):
            self.gather(name)
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            self.name(argument if name == "GLOBAL" else " ".join(self.top(2)))
        elif name == "REDUCE":
            function, arguments = self.top(2)
            self.stack.append(_called(function, arguments))
            self.used += _size(self.stack[-1])
        elif name == "BUILD":
            _build(*self.top(2, keep=1))
            self.used += _size(self.stack[-1])
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if argument is None else argument] = self.top(1, keep=1)[0]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        else:
            raise _RefusedError(f"the instruction {name}")

    def top(self, count: int, keep: int = 0) -> list[Any]:
        """The last ``count`` values of the stack; the first ``keep`` of them stay on it."""
        if len(self.stack) < count:
            raise _RefusedError("an instruction lacks its values")
        values = self.stack[-count:]
        del self.stack[len(self.stack) - count + keep :]
        return values

    def since_mark(self) -> list[Any]:
        """Pop the values since the last mark."""
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                values = self.stack[index + 1 :]
                del self.stack[index:]
                return values
        raise _RefusedError("a mark that was never set")

    def gather(self, name: str) -> None:
        """Build or extend lists and tuples."""
        if name in ("APPEND", "APPENDS"):
            added = self.top(1) if name == "APPEND" else self.since_mark()
            if not (self.stack and isinstance(self.stack[-1], list)):
                raise _RefusedError("values added to something that is not a list")
            self.stack[-1].extend(added)
        else:
            kind, count = _GATHERING[name]
            self.stack.append(kind(self.since_mark() if count is None else self.top(count) if count else ()))

    def name(self, text: str) -> None:
        """Push a name if pickles of arrays use it."""
        if text not in _NAMES:
            raise _RefusedError(f"it requests {shown(text.replace(' ', '.'))}")
        self.stack.append(_Name(text))


_GATHERING: dict[str, tuple[type, int | None]] = {  # type and number of values; None: all values since the mark
    "EMPTY_LIST": (list, 0), "LIST": (list, None), "EMPTY_TUPLE": (tuple, 0), "TUPLE": (tuple, None),
    "TUPLE1": (tuple, 1), "TUPLE2": (tuple, 2), "TUPLE3": (tuple, 3),
}  # fmt: skip


def _size(value: Any) -> int:
    """Bytes that an instruction has copied."""
    if isinstance(value, _PickledArray):
        return 0 if value.content is None else value.content.nbytes
    return len(value) if isinstance(value, bytes) else 0


def _called(function: Any, arguments: Any) -> Any:
    """The result that the function of that name would return, without calling it."""
    if not isinstance(function, _Name) or not isinstance(arguments, tuple):
        raise _RefusedError("a call of something that is not a function")
    if function.text == _ENCODE and len(arguments) == 2 and arguments[1] in ("latin1", "latin-1"):
        return _bytes(arguments[0])
    if function.text == _NO_BYTES and not arguments:
        return b""
    if function.text == _DTYPE and arguments:
        return _dtype(arguments[0])
    if function.text in _RECONSTRUCT and arguments[:1] == (_Name(_NDARRAY),):
        return _PickledArray()
    if function.text in _FROMBUFFER and len(arguments) == 4:
        data, dtype, shape, order = arguments
        return _PickledArray(_content(shape, dtype, order == "F", data))
    raise _RefusedError(f"a call of {function.text.replace(' ', '.')}")


def _build(value: Any, state: Any) -> None:
    """Set the content of an array or the byte order of a type."""
    if not isinstance(state, tuple):
        raise _RefusedError("content for something that is not an array")
    if isinstance(value, _Dtype) and len(state) >= 5 and state[2:5] == (None, None, None) and state[1] in _ORDERS:
        value.order = _ORDERS[state[1]]
    elif isinstance(value, _PickledArray) and len(state) == 5:
        _, shape, dtype, columns_first, data = state
        value.content = _content(shape, dtype, bool(columns_first), data)
    else:
        raise _RefusedError("content for something that is not an array")


def _dtype(code: Any) -> _Dtype:
    code = code.decode("ascii") if isinstance(code, bytes) else code
    if not isinstance(code, str) or code not in _CODES:
        raise _RefusedError(f"arrays of type {shown(str(code))}")
    return _Dtype(code)


def _content(shape: Any, dtype: Any, columns_first: bool, data: Any) -> NumericArray:
    """The array with these bytes."""
    if not isinstance(shape, tuple) or not all(isinstance(size, int) and 0 <= size < 2**40 for size in shape):
        raise _RefusedError("an array of impossible shape")
    if not isinstance(dtype, _Dtype):
        raise _RefusedError("an array without a type")
    values, kind = _bytes(data), dtype.built()
    if prod(shape) * kind.itemsize != len(values):
        raise _RefusedError(f"an array of shape {shape} in {len(values)} bytes")
    array = np.frombuffer(values, kind).reshape(shape, order="F" if columns_first else "C")
    return array.astype(kind.newbyteorder("="))


def _bytes(data: Any) -> bytes:
    """Bytes as written by Python 3, or by Python 2 as a string of characters below 256."""
    if isinstance(data, bytes | bytearray):
        return bytes(data)
    if isinstance(data, str):
        return data.encode("latin1")
    raise _RefusedError("an array whose content is not bytes")
