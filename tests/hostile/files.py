"""Files that promise, repeat or nest more than they hold: name, how it is read, and its content."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from plueckernet.models.weights import available_pretrained, pretrained_path

COMPRESSED_BYTES = 400 << 20  # of arrays in archives


def las(records: int = 0, count: int = 1, form: int = 0, tail: bytes = b"") -> bytes:
    """A LAS header of version 1.2 and whatever follows it."""
    header = bytearray(227)
    header[:4], header[24:26] = b"LASF", b"\x01\x02"
    struct.pack_into("<HIIBHI", header, 94, 227, 227, records, form, 20, count)
    struct.pack_into("<3d", header, 131, 0.001, 0.001, 0.001)
    return bytes(header) + tail


def _zip_of_zeros(path: Path, names: dict[str, tuple[int, ...]]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, shape in names.items():
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                stream.write(header.getvalue())
                for _ in range(0, 8 * int(np.prod(shape)), 1 << 20):
                    stream.write(bytes(1 << 20))


def npz_of_unused(path: Path) -> None:
    """One line, and a large array that is no line."""
    _zip_of_zeros(path, {"endpoints": (0, 6), "unused": (COMPRESSED_BYTES // 8,)})


def npz_of_lines(path: Path) -> None:
    """More lines than the limit, in a small file."""
    _zip_of_zeros(path, {"endpoints": (COMPRESSED_BYTES // 48, 6)})


def dxf(blocks: int, grid: tuple[int, int]) -> bytes:
    """Blocks that each refer twice to the next; the last has a line."""
    rows = ["0", "SECTION", "2", "BLOCKS"]
    for number in range(blocks):
        rows += [
            "0",
            "BLOCK",
            "8",
            "0",
            "2",
            f"B{number}",
            "70",
            "0",
            "10",
            "0",
            "20",
            "0",
            "30",
            "0",
            "3",
            f"B{number}",
        ]
        for _ in range(2):
            if number + 1 < blocks:
                rows += ["0", "INSERT", "8", "0", "2", f"B{number + 1}", "10", "1", "20", "0", "30", "0"]
            else:
                rows += ["0", "LINE", "8", "0", "10", "0", "20", "0", "30", "0", "11", "1", "21", "0", "31", "0"]
        rows += ["0", "ENDBLK", "8", "0"]
    rows += ["0", "ENDSEC", "0", "SECTION", "2", "ENTITIES", "0", "INSERT", "8", "0", "2", "B0"]
    rows += ["10", "0", "20", "0", "30", "0", "70", str(grid[0]), "71", str(grid[1]), "44", "1", "45", "1"]
    return ("\n".join([*rows, "0", "ENDSEC", "0", "EOF"]) + "\n").encode()


def dxf_circle() -> bytes:
    """Two blocks that contain each other."""
    return dxf(3, (1, 1)).replace(b"0\nLINE\n8\n0\n", b"0\nINSERT\n8\n0\n2\nB0\n")


def city(objects: dict[str, object], **more: object) -> bytes:
    """CityJSON with these objects."""
    content = {"type": "CityJSON", "version": "1.1", "CityObjects": objects, "vertices": [[0, 0, 0], [1, 0, 0]], **more}
    return json.dumps(content).encode()


def city_circle() -> bytes:
    """Many objects, each the parent of the next."""
    count = 30_000
    solid = {"type": "MultiSurface", "lod": "1", "boundaries": [[[0, 1, 7]]]}
    return city({f"o{i}": {"parents": [f"o{(i + 1) % count}"], "geometry": [solid]} for i in range(count)})


def city_instances() -> bytes:
    """Many instances of a template with many edges."""
    instance = {
        "type": "GeometryInstance", "template": 0, "boundaries": [0],
        "transformationMatrix": np.eye(4).ravel().tolist(),
    }  # fmt: skip
    template = {"type": "MultiSurface", "lod": "1", "boundaries": [[[0, 1] * 5000]]}
    templates = {"templates": [template], "vertices-templates": [[0, 0, 0], [1, 0, 0]]}
    return city({"o": {"geometry": [instance] * 5000}}, **{"geometry-templates": templates})


def pickle_of_one_array() -> bytes:
    """A list that has one array a million times, by its memo."""
    return pickle.dumps([np.zeros((20_000, 6))] * 1_000_000, protocol=2)


def pickle_of_one_string() -> bytes:
    """Arrays that are made of the same bytes again and again."""
    content = bytes(8_000_000)
    text = b"B" + struct.pack("<I", len(content)) + content + b"q\x01"
    order = b"(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    kind = b"cnumpy\ndtype\nX\x02\x00\x00\x00f8\x85Rq\x05" + order
    made = b"cnumpy.core.numeric\n_frombuffer\n(%b%bJ" + struct.pack("<i", 1_000_000) + b"\x85X\x01\x00\x00\x00CtR"
    return b"\x80\x03](" + made % (text, kind) + made % (b"h\x01", b"h\x05") * 500 + b"e."


def pcd(data: str, body: bytes, width: str = "WIDTH 4", count: str = "COUNT 1 1 1") -> bytes:
    """A PCD file of three fields."""
    header = f"VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\n{count}\n{width}\nHEIGHT 1\nDATA {data}\n"
    return header.encode() + body


def pcd_bomb() -> bytes:
    """LZF that stands for a gigabyte."""
    packed = b"\x00\x00" + b"\xe0\xff\x00" * 4_000_000
    points = 264 * 4_000_000 // 12
    return pcd("binary_compressed", struct.pack("<II", len(packed), 12 * points) + packed, f"WIDTH {points}")


def card(path: Path) -> None:
    """The shipped weights under a card of 20,000 layers."""
    shipped = pretrained_path(available_pretrained()[0])
    path.write_bytes(shipped.read_bytes())
    content = json.loads(shipped.with_suffix(".json").read_text())
    content["architecture"] |= {"layers": 20_000}
    path.with_suffix(".json").write_text(json.dumps(content))


DEEP = 200_000
HOSTILE: dict[str, tuple[str, bytes | Callable[[Path], None]]] = {
    "records.las": ("points", las(records=2**32 - 1)),
    "chunks.laz": ("points", las(form=0x80, tail=struct.pack("<qII", 235, 0, 2**32 - 1))),
    "missing.las": ("points", las(count=2**32 - 1)),
    "nested.dxf": ("lines", dxf(60, (1, 1))),
    "grid.dxf": ("lines", dxf(1, (30_000, 30_000))),
    "circle.dxf": ("lines", dxf_circle()),
    "circle.json": ("lines", city_circle()),
    "instances.json": ("lines", city_instances()),
    "unused.npz": ("lines", npz_of_unused),
    "lines.npz": ("lines", npz_of_lines),
    "memo.pkl": ("pickle", pickle_of_one_array()),
    "string.pkl": ("pickle", pickle_of_one_string()),
    "lzf.pcd": ("points", pcd_bomb()),
    "huge.pcd": ("points", pcd("binary", bytes(48), "WIDTH 999999999999999")),
    "huge.vtk": ("points", b"# vtk DataFile Version 3.0\nx\nBINARY\nDATASET POLYDATA\nPOINTS 999999999999999 double\n"),
    "deep.json": ("lines", b'{"a":' + b"[" * DEEP),
    "deep.toml": ("toml", b"a = " + b"[" * DEEP),
    "index.json": ("index", b"[" * DEEP),
    "pipe.obj": ("lines", os.mkfifo),
    "pipe.pcd": ("points", os.mkfifo),
    "pipe.toml": ("toml", os.mkfifo),
    "pipe.pkl": ("pickle", os.mkfifo),
    "pipe.txt": ("trajectory", os.mkfifo),
    "zero": ("lines", lambda path: path.symlink_to("/dev/zero")),
    "layers.safetensors": ("weights", card),
}  # fmt: skip


def write(folder: Path) -> None:
    """Write all of them."""
    for name, (_, content) in HOSTILE.items():
        path = folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path)
