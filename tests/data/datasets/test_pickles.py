"""Pickles of arrays are read, and nothing in a pickle is executed."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from plueckernet.data.datasets.pickles import read_arrays
from plueckernet.errors import FormatError

ARRAYS = [
    np.arange(12, dtype=np.float32).reshape(2, 6),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([[1, 2], [3, 4]], dtype=np.int32),
    np.arange(3, dtype=">f8"),
    np.zeros((0, 6)),
]
# As Python 2 with an old NumPy wrote `[numpy.array([1.0, 2.0])]`, in protocols 0 and 2.
PYTHON_2 = (
    b"(lp0\ncnumpy.core.multiarray\n_reconstruct\np1\n(cnumpy\nndarray\np2\n(I0\ntp3\nS'b'\np4\ntp5\nRp6\n(I1\n(I2\ntp7\n"
    b"cnumpy\ndtype\np8\n(S'f8'\np9\nI0\nI1\ntp10\nRp11\n(I3\nS'<'\np12\nNNNI-1\nI-1\nI0\ntp13\nbI00\n"
    b"S'\\x00\\x00\\x00\\x00\\x00\\x00\\xf0?\\x00\\x00\\x00\\x00\\x00\\x00\\x00@'\np14\ntp15\nba.",
    b"\x80\x02]q\x00cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85q\x03U\x01bq\x04\x87q\x05Rq"
    b"\x06(K\x01K\x02\x85q\x07cnumpy\ndtype\nq\x08U\x02f8q\tK\x00K\x01\x87q\nRq\x0b(K\x03U\x01<q\x0cNNNJ\xff\xff\xff\xff"
    b"J\xff\xff\xff\xffK\x00tq\rb\x89U\x10\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00@q\x0etq\x0fba.",
)


class Call:
    """An object whose unpickling calls a function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call


def written(folder: Path, data: bytes) -> Path:
    path = folder / "plucker1.pkl"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_every_protocol_come_back(tmp_path: Path, protocol: int) -> None:
    arrays = read_arrays(written(tmp_path, pickle.dumps(ARRAYS, protocol=protocol)))
    assert len(arrays) == len(ARRAYS)
    for array, truth in zip(arrays, ARRAYS, strict=True):
        assert array.shape == truth.shape
        assert array.dtype == truth.dtype.newbyteorder("=")
        np.testing.assert_array_equal(array, truth)


@pytest.mark.parametrize("data", PYTHON_2, ids=["protocol 0", "protocol 2"])
def test_pickles_of_python_2_are_read(tmp_path: Path, data: bytes) -> None:
    (array,) = read_arrays(written(tmp_path, data))
    np.testing.assert_array_equal(array, [1.0, 2.0])


def test_one_array_is_taken_along_its_first_axis(tmp_path: Path) -> None:
    rotations = np.arange(27.0).reshape(3, 3, 3)
    slices = read_arrays(written(tmp_path, pickle.dumps(rotations)))
    np.testing.assert_array_equal(np.stack(slices), rotations)


def attacks(mark: str) -> dict[str, bytes]:
    """Pickles that would create a file at ``mark`` if Python unpickled them; the last ones only try to."""
    touch = f"touch {mark}"
    array = pickle.dumps([np.zeros(2)], protocol=2)
    return {
        "reduce": pickle.dumps(Call(os.system, touch)),
        "reduce, text protocol": pickle.dumps([Call(os.system, touch)], protocol=0),
        "eval": pickle.dumps([np.zeros(2), Call(eval, f"open({mark!r}, 'w').close()")]),
        "inst": f"(S'{touch}'\nios\nsystem\n.".encode(),
        "obj": f"(cos\nsystem\nS'{touch}'\no.".encode(),
        "newobj": b"\x80\x02cpathlib\nPath\n" + f"(S'{mark}'\nt".encode() + b"\x81.",
        "call of a call": pickle.dumps(Call(getattr, Call(__import__, "os"), "system"), protocol=4),
        "stack global": pickle.dumps(Call(exec, f"open({mark!r}, 'w').close()"), protocol=4),
        "inside an array": pickle.dumps([np.array([Call(os.system, touch)], dtype=object)]),
        "as the content of an array": array.replace(
            b"\x89h\x04", f"\x89cos\nsystem\n(S'{touch}'\ntR0h\x04".encode("latin1")
        ),
        "numpy's own loader": pickle.dumps(Call(np.load, mark, None, True)),
        "another codec": b"\x80\x02c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR.",
        "extension registry": b"\x80\x02\x82\x01.",
        "persistent object": b"Psome id\n.",
        "attribute of numpy": b"cnumpy\nsave\n(S'" + mark.encode() + b"'\nI1\ntR.",
        "set state on a function": b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n}X\x01\x00\x00\x00aK\x01sb.",
        "set state on a class": b"\x80\x02cnumpy\nndarray\n}X\x01\x00\x00\x00aK\x01sb.",
    }


@pytest.mark.parametrize("kind", attacks("").keys())
def test_hostile_pickles_are_refused_and_not_executed(tmp_path: Path, kind: str) -> None:
    mark = tmp_path / "it_ran"
    path = written(tmp_path, attacks(str(mark))[kind])
    with pytest.raises(FormatError, match="pickle"):
        read_arrays(path)
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["reduce", "eval", "inst", "obj", "as the content of an array"])
def test_the_attacks_are_real(tmp_path: Path, kind: str) -> None:
    """Python's own unpickler executes them."""
    mark = tmp_path / "it_ran"
    pickle.loads(attacks(str(mark))[kind])
    assert mark.exists()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "no end"),
        (b"no pickle at all", "pickle"),
        (pickle.dumps(ARRAYS)[:-40], "damaged"),
        (pickle.dumps({"a": 1}), "instruction EMPTY_DICT"),
        (pickle.dumps([np.zeros(2), 3]), "nothing else"),
        (pickle.dumps("text"), "found str"),
        (pickle.dumps([np.array([1 + 2j])]), "type 'c16'"),
        (pickle.dumps([np.zeros(2)], protocol=2).replace(b"K\x02\x85", b"K\x09\x85"), r"shape \(9,\) in 16 bytes"),
        (pickle.dumps([np.zeros(2)], protocol=2).replace(b"K\x02\x85", b"J\xff\xff\xff\xff\x85"), "impossible shape"),
        (b"\x80\x02]K\x00a0.", "instruction POP"),
        (b"h\x07.", "damaged"),
    ],
)  # fmt: skip
def test_other_content_is_refused_with_a_reason(tmp_path: Path, data: bytes, complaint: str) -> None:
    path = written(tmp_path, data)
    with pytest.raises(FormatError, match=complaint) as caught:
        read_arrays(path)
    assert str(path) in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        read_arrays(tmp_path / "none.pkl")
