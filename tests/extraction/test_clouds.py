"""Reading clouds: every format gives the same points, and errors name file and line."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from plueckernet.errors import FormatError, InputError, MissingDependencyError
from plueckernet.extraction import point_chunks, read_points
from plueckernet.extraction.clouds.pcd import lzf_decompress
from plueckernet.extraction.clouds.reading import is_cloud
from plueckernet.io import read_lines, write_lines

SHARED = Path(__file__).parents[3] / "shared" / "data" / "scans"
POINTS = np.round(np.random.default_rng(0).normal(0, 5, (40, 3)), 3)
ROWS = [" ".join(f"{value:.3f}" for value in point) for point in POINTS]


def write_text(path: Path, header: str = "", separator: str = " ", extra: str = "") -> None:
    rows = [separator.join(row.split()) + extra for row in ROWS]
    path.write_text(header + "\n".join(rows) + "\n")


def write_ply(path: Path, order: str) -> None:
    name = {"": "ascii", "<": "binary_little_endian", ">": "binary_big_endian"}[order]
    header = f"ply\nformat {name} 1.0\nelement camera 1\nproperty float f\nelement vertex 40\nproperty uchar red\n"
    header += "property double z\nproperty double x\nproperty double y\nend_header\n"
    if order == "":
        rows = "".join(f"7 {z!r} {x!r} {y!r}\n" for x, y, z in POINTS.tolist())
        path.write_text(header + "1.5\n" + rows)
        return
    body = b"".join(struct.pack(f"{order}B3d", 7, z, x, y) for x, y, z in POINTS.tolist())
    path.write_bytes(header.encode() + struct.pack(order + "f", 1.5) + body)


def write_pcd(path: Path, data: str) -> None:
    header = "# .PCD v0.7\nVERSION 0.7\nFIELDS x y _ z\nSIZE 8 8 1 8\nTYPE F F U F\nCOUNT 1 1 4 1\nWIDTH 40\nHEIGHT 1\n"
    header += f"VIEWPOINT 0 0 0 1 0 0 0\nPOINTS 40\nDATA {data}\n"
    x, y, z = POINTS.T.tolist()
    if data == "ascii":
        path.write_text(header + "".join(f"{a!r} {b!r} 0 0 0 0 {c!r}\n" for a, b, c in POINTS.tolist()))
    elif data == "binary":
        rows = b"".join(struct.pack("<2d4Bd", a, b, 0, 0, 0, 0, c) for a, b, c in POINTS.tolist())
        path.write_bytes(header.encode() + rows)
    else:
        plain = struct.pack("<40d", *x) + struct.pack("<40d", *y) + bytes(160) + struct.pack("<40d", *z)
        packed = lzf_literals(plain[:640]) + b"\x00\x00\xe0\x96\x00" + lzf_literals(plain[800:])
        path.write_bytes(header.encode() + struct.pack("<2I", len(packed), len(plain)) + packed)


def lzf_literals(data: bytes) -> bytes:
    """LZF that compresses nothing."""
    return b"".join(bytes([len(data[i : i + 32]) - 1]) + data[i : i + 32] for i in range(0, len(data), 32))


def write_vtk(path: Path, binary: bool) -> None:
    header = f"# vtk DataFile Version 3.0\nmade here\n{'BINARY' if binary else 'ASCII'}\nDATASET POLYDATA\n"
    header += "POINTS 40 double\n"
    body = POINTS.astype(">f8").tobytes() if binary else "\n".join(ROWS).encode() + b"\n\nVERTICES 1 2\n1 0\n"
    path.write_bytes(header.encode() + body)


def write_las(path: Path) -> None:
    laspy = pytest.importorskip("laspy", reason="laspy is not installed")
    las = laspy.create(point_format=3, file_version="1.2")
    las.header.scales = [0.001] * 3
    las.x, las.y, las.z = POINTS.T
    las.write(str(path))


def write_e57(path: Path) -> None:
    pye57 = pytest.importorskip("pye57", reason="pye57 is not installed")
    file = pye57.E57(str(path), mode="w")
    file.write_scan_raw({f"cartesian{axis}": POINTS[:, i].copy() for i, axis in enumerate("XYZ")})
    file.close()


WRITERS = {
    "blanks.xyz": lambda path: write_text(path, extra=" 12 255 255 0"),
    "named.csv": lambda path: write_text(path, "X;Y;Z;intensity\n", ";", ";3"),
    "commas.txt": lambda path: write_text(path, "# made here\n//X,Y,Z\n", ", "),
    "counted.pts": lambda path: write_text(path, "40\n", extra=" -100"),
    "ascii.ply": lambda path: write_ply(path, ""),
    "little.ply": lambda path: write_ply(path, "<"),
    "big.ply": lambda path: write_ply(path, ">"),
    "ascii.pcd": lambda path: write_pcd(path, "ascii"),
    "binary.pcd": lambda path: write_pcd(path, "binary"),
    "packed.pcd": lambda path: write_pcd(path, "binary_compressed"),
    "ascii.vtk": lambda path: write_vtk(path, binary=False),
    "binary.vtk": lambda path: write_vtk(path, binary=True),
    "wide.npy": lambda path: np.save(path, np.hstack([POINTS, POINTS])),
    "cloud.las": write_las,
    "cloud.laz": write_las,
    "cloud.e57": write_e57,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_points(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    np.testing.assert_allclose(read_points(tmp_path / name), POINTS, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("packed.pcd", "binary.vtk")])
def test_chunks_add_up_to_the_file(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    chunks = list(point_chunks(tmp_path / name, 7))
    assert [len(chunk) for chunk in chunks] == [7] * 5 + [5]
    np.testing.assert_allclose(np.concatenate(chunks), POINTS, atol=1e-9)


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"time","z","y","x"\n9,3,2,1\n9,6,5,4\n')
    np.testing.assert_array_equal(read_points(tmp_path / "a.csv"), [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("columns", [3, 4])
def test_kitti_with_and_without_reflectance(columns: int, tmp_path: Path) -> None:
    values = np.hstack([POINTS, np.full((40, 1), 0.5)])[:36, :columns]  # 36 rows: a size that fits both
    values.astype("<f4").tofile(tmp_path / "scan.bin")
    np.testing.assert_allclose(read_points(tmp_path / "scan.bin"), POINTS[:36], atol=1e-5)


def test_points_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[0, 1, 2], [np.nan, 1, 2], [0, np.inf, 2.0]]))
    assert read_points(tmp_path / "a.npy").tolist() == [[0, 1, 2]]


def test_content_takes_precedence_over_the_suffix(tmp_path: Path) -> None:
    write_ply(tmp_path / "cloud.txt", "<")
    np.testing.assert_array_equal(read_points(tmp_path / "cloud.txt"), POINTS)


PCD = "VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 2\nHEIGHT 1\nPOINTS 2\n"
BROKEN = [
    ("a.xyz", b"1 2 3\n4 5 six\n", "a.xyz:2: expected a number, found 'six'"),
    ("a.xyz", b"1 2 3\n\n4 5\n", "a.xyz:3: expected at least 3 columns, found 2"),
    ("a.csv", b"1,2\n", "a.csv:1: expected at least 3 columns"),
    ("a.xyz", b"\0\1\2", "binary data"),
    ("a.xyz", b"# nothing\n", "no points"),
    ("a.xyz", b"", "the file is empty"),
    ("a.foo", b"what", "unrecognised"),
    ("a.bin", b"12345", "5 bytes are not rows"),
    ("a.npy", b"\x93NUMPY\x01\x00", "not an array"),
    ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nend_header\n1\n2\n", "no vertices with"),
    ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n"
     b"end_header\n1 2 3\n4 5\n", "a.ply:9: expected 3 numbers, found 2"),
    ("a.ply", b"ply\nformat binary_little_endian 1.0\nelement vertex 2\nproperty float x\nproperty float y\n"
     b"property float z\nend_header\n1234", "the file ends within 2 vertices"),
    ("a.pcd", (PCD + "DATA ascii\n1 2 3\n4 5 x\n").encode(), "a.pcd:11: expected a number"),
    ("a.pcd", (PCD + "DATA ascii\n1 2 3\n").encode(), "ends after 1 of 2 points"),
    ("a.pcd", (PCD + "DATA binary\n1234").encode(), "ends after 0 of 2 points"),
    ("a.pcd", (PCD + "DATA binary_compressed\n").encode() + struct.pack("<2I", 3, 24) + b"\xff\0\0", "damaged"),
    ("a.pcd", (PCD + "DATA binary_compressed\n").encode() + struct.pack("<2I", 3, 7) + b"\xff\0\0", "do not contain 2"),
    ("a.pcd", (PCD + "DATA morse\n").encode(), "a.pcd:9: expected DATA ascii"),
    ("a.pcd", PCD.replace("x y z", "u v w").encode() + b"DATA ascii\n", "no fields x, y, z"),
    ("a.vtk", b"# vtk DataFile Version 3.0\nt\nASCII\nDATASET POLYDATA\nPOINTS 2 float\n1 2 3\n", "ends after 1 of 2"),
    ("a.vtk", b"# vtk DataFile Version 3.0\nt\nASCII\nDATASET POLYDATA\nPOINTS x float\n", "a.vtk:5: expected `POINTS"),
    ("a.las", b"LASF" + bytes(20), "not readable as LAS"),
    ("a.e57", b"ASTM-E57" + bytes(40), "not readable as E57"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "complaint"), BROKEN, ids=[f"{case[0]} {case[2][:24]}" for case in BROKEN])
def test_errors_say_what_is_wrong(name: str, content: bytes, complaint: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError) as raised:
        read_points(tmp_path / name)
    assert complaint in str(raised.value)
    assert str(tmp_path / name) in str(raised.value)


def test_missing_files_and_unknown_formats(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        read_points(tmp_path / "none.ply")
    with pytest.raises(FormatError, match="folder"):
        read_points(tmp_path)
    (tmp_path / "a.xyz").write_text("1 2 3\n")
    with pytest.raises(InputError, match="unknown format 'stl'"):
        read_points(tmp_path / "a.xyz", format="stl")


@pytest.mark.parametrize(("name", "package"), [("cloud.laz", "laspy"), ("cloud.e57", "pye57")])
def test_a_missing_package_names_its_extra(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WRITERS[name](tmp_path / name)
    (tmp_path / "first" / package).mkdir(parents=True)
    (tmp_path / "first" / package / "__init__.py").write_text(f"raise ModuleNotFoundError(name={package!r})")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "first"))  # of the child process that reads
    with pytest.raises(MissingDependencyError, match=rf"{package} is not installed: pip install 'plueckernet\[extract"):
        read_points(tmp_path / name)


def test_lzf_copies_that_overlap_themselves() -> None:
    assert lzf_decompress(b"\x01ab" + bytes([(4 << 5) | 0, 1]), 8) == b"abababab"


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data/scans is not here")
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("lidar_libpointmatcher/car_cloud400.csv", 24989),
        ("lidar_libpointmatcher/cloud_0.vtk", 36674),
        ("lidar_small_gicp/source.ply", 69792),
        ("lidar_kitti07/000000/points.bin", 21562),
        ("lidar_kitti00/000000.bin", 124668),
    ],
)
def test_published_clouds(name: str, count: int) -> None:
    assert read_points(SHARED / name).shape == (count, 3)


def test_clouds_are_told_from_lines(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(8, 6))
    for name, columns in (("a.txt", 3), ("a.csv", 4), ("a.npy", 3), ("a.xyz", 6), ("a.bin", 4)):
        path = tmp_path / name
        if name.endswith("npy"):
            np.save(path, rows[:, :columns])
        elif name.endswith("bin"):
            rows[:, :columns].astype("<f4").tofile(path)
        else:
            np.savetxt(path, rows[:, :columns], delimiter="," if name.endswith("csv") else " ")
        assert is_cloud(path), name
    (tmp_path / "normals.csv").write_text("x,y,z,nx,ny,nz\n1,2,3,0,0,1\n")
    assert is_cloud(tmp_path / "normals.csv")
    with pytest.raises(FormatError, match=r"normals\.csv:1: columns x, y, z: a point cloud"):
        read_lines(tmp_path / "normals.csv")
    for name in ("b.obj", "b.txt", "b.csv", "b.npy", "b.ply", "b.npz"):
        write_lines(tmp_path / name, rows)
        assert not is_cloud(tmp_path / name), name
    write_lines(tmp_path / "lines3D.bin", rows, format="limap2")
    write_lines(tmp_path / "tracks.txt", rows, format="limap")
    for name in ("lines3D.bin", "tracks.txt", "missing.xyz", "."):
        assert not is_cloud(tmp_path / name), name
