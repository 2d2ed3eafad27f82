"""Small files in the published formats."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import cv2
import numpy as np

# A room of 4 x 3 x 2.5 m, in millimetres.
CORNERS = [[x, y, z] for x in (0.0, 4000.0) for y in (0.0, 3000.0) for z in (0.0, 2500.0)]
EDGES = [
    (a, b)
    for a in range(8)
    for b in range(a + 1, 8)
    if sum(p != q for p, q in zip(CORNERS[a], CORNERS[b], strict=True)) == 1
]


def structured3d(folder: Path, count: int = 1) -> list[Path]:
    """Scenes with one room each; some lines have a third junction in between, a single one or none."""
    paths = []
    for number in range(count):
        corners = [*CORNERS, [2000.0, 0.0, 0.0]]  # in the middle of the edge from 0 to 4
        matrix = [[int(place in edge) for place in range(9)] for edge in EDGES]
        matrix[EDGES.index((0, 4))][8] = 1
        matrix += [[0] * 9, [1] + [0] * 8]
        content = {
            "junctions": [{"ID": place, "coordinate": corner} for place, corner in enumerate(corners)],
            "lines": [{"ID": place, "point": [0, 0, 0], "direction": [1, 0, 0]} for place in range(len(matrix))],
            "planes": [{"ID": 0, "type": "floor", "normal": [0, 0, 1], "offset": 0}],
            "semantics": [{"ID": 0, "type": "kitchen", "planeID": [0]}],
            "planeLineMatrix": [[1] * len(matrix)],
            "lineJunctionMatrix": matrix,
            "cuboids": [],
            "manhattan": [],
        }
        path = folder / f"scene_{number:05d}" / "annotation_3d.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
        paths.append(path)
    return paths


def semantic3d(folder: Path, station: str, seed: int = 0) -> Path:
    """A scan of a box of 8 x 6 x 5 m on the ground, as the publisher writes a row: x y z intensity r g b."""
    generator = np.random.default_rng(seed)
    u, v = generator.random((2, 12000))
    side = generator.integers(0, 5, 12000)
    size = np.array([8.0, 6.0, 5.0])
    points = np.stack([u, v, np.ones_like(u)], 1) * size
    points[side == 1] = np.stack([u, 0 * u, v], 1)[side == 1] * size
    points[side == 2] = np.stack([u, 1 + 0 * u, v], 1)[side == 2] * size
    points[side == 3] = np.stack([0 * u, u, v], 1)[side == 3] * size
    points[side == 4] = np.stack([1 + 0 * u, u, v], 1)[side == 4] * size
    path = folder / f"{station}_xyz_intensity_rgb.txt"
    with path.open("w") as stream:
        for x, y, z in points + np.array([1.0, 2.0, 0.0]):
            stream.write(f"{x:.3f} {y:.3f} {z:.3f} {generator.integers(-2000, 2000)} 120 130 140\n")
    return path


def semantic3d_town(folder: Path, name: str, seed: int = 0) -> Path:
    """A scan of sixteen boxes on a square of 12 m, under a published name, in the rows of the publisher."""
    generator = np.random.default_rng(seed)
    ground = np.column_stack([12 * generator.random((24000, 2)), np.zeros(24000)])
    clouds = [ground]
    for x, y in np.stack(np.meshgrid(np.arange(4), np.arange(4)), -1).reshape(-1, 2):
        size = generator.uniform(1.2, 2.2, 3)
        points = size * generator.random((4000, 3))
        side, axis = generator.integers(0, 2, 4000), generator.integers(0, 3, 4000)
        points[np.arange(4000), axis] = (size * np.ones((4000, 3)))[np.arange(4000), axis] * np.maximum(side, axis == 2)
        clouds.append(points + np.array([3.0 * x + 0.3, 3.0 * y + 0.3, 0.0]))
    points = np.concatenate(clouds) + generator.normal(0, 0.003, (sum(map(len, clouds)), 3))
    rows = np.column_stack([points, generator.integers(-2000, 2000, len(points)), np.full((len(points), 3), 120)])
    path = folder / f"{name}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, rows, fmt="%.3f %.3f %.3f %d %d %d %d")
    return path


def room_image(intrinsics: tuple[float, float, float, float], size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Colour and depth in metres of a wall 4 m away with a dark box of 1 x 0.8 m that stands 1 m out of it."""
    width, height = size
    fx, fy, cx, cy = intrinsics
    colour = np.full((height, width, 3), 200, np.uint8)
    depth = np.full((height, width), 4.0)
    left, right, top, bottom = (round(value) for value in (cx - fx / 6, cx + fx / 6, cy - fy / 7.5, cy + fy / 7.5))
    colour[top:bottom, left:right] = (40, 60, 30)
    depth[top:bottom, left:right] = 3.0
    return colour, depth


def write_images(
    colour_path: Path, depth_path: Path, steps: float, camera: tuple[float, ...], size: tuple[int, int]
) -> None:
    """Write both images; ``steps`` is the number of depth steps per metre."""
    colour, depth = room_image(camera, size)
    colour_path.parent.mkdir(parents=True, exist_ok=True)
    depth_path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(colour_path), colour)
    cv2.imwrite(str(depth_path), np.round(depth * steps).astype(np.uint16))


def apollo(folder: Path, count: int = 3) -> Path:
    """The same image of Camera 5 at every metre; depth in a separate folder, as distributed."""
    names = [f"170927_0638{11 + place:02d}892_Camera_5" for place in range(count)]
    rows = []
    for place, name in enumerate(names):
        image = folder / "road02_ins" / "ColorImage" / "Record001" / "Camera 5" / f"{name}.jpg"
        depth = folder / "road02_ins_depth" / "Depth" / "Record001" / "Camera 5" / f"{name}.png"
        if rows:
            shutil.copy(image.with_stem(names[0]), image)
            shutil.copy(depth.with_stem(names[0]), depth)
        else:
            write_images(image, depth, 200, (2304.5, 2305.9, 1686.2, 1355.0), (3384, 2710))
        matrix = np.eye(4)
        matrix[:3, :3] = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])
        matrix[:3, 3] = [100.0 + place, 200.0, 3.0]
        rows.append(" ".join(f"{value:.6f}" for value in matrix.ravel()) + f" {name}")
    poses = folder / "road02_ins" / "Pose" / "Record001" / "Camera 5" / "pose.txt"
    poses.parent.mkdir(parents=True)
    poses.write_text("\n".join(rows) + "\n")
    return folder


def tum(folder: Path, listed: bool) -> Path:
    """Two frames and one colour image without depth; the camera moves along x at 1 m/s."""
    for place in range(2):
        write_images(
            folder / f"rgb/{place}.png", folder / f"depth/{place}.png", 5000, (517.3, 516.5, 318.6, 255.3), (640, 480)
        )
    times = [(10.000, 10.005), (10.033, 10.040)]
    if listed:
        rows = [f"{a:.6f} rgb/{i}.png {b:.6f} depth/{i}.png" for i, (a, b) in enumerate(times)]
        (folder / "associations.txt").write_text("\n".join(rows))
    else:
        head = "# color images\n# timestamp filename\n"
        colour = [f"{a:.6f} rgb/{i}.png" for i, (a, _) in enumerate(times)]
        (folder / "rgb.txt").write_text(head + "\n".join([*colour, "10.100000 rgb/9.png"]))
        (folder / "depth.txt").write_text(head + "\n".join(f"{b:.6f} depth/{i}.png" for i, (_, b) in enumerate(times)))
    truth = [f"{9.99 + place / 100:.4f} {9.99 + place / 100:.4f} 2 3 0 0 0.7071068 0.7071068" for place in range(10)]
    (folder / "groundtruth.txt").write_text("# ground truth trajectory\n" + "\n".join(truth))
    return folder


def seven_scenes(folder: Path, count: int = 2) -> Path:
    """Frames with a rotation of 0.1 rad between them; missing depth is 65535."""
    for place in range(count):
        name = folder / f"frame-{place:06d}"
        write_images(
            Path(f"{name}.color.png"), Path(f"{name}.depth.png"), 1000, (585.0, 585.0, 320.0, 240.0), (640, 480)
        )
        turn, side = np.cos(0.1 * place), np.sin(0.1 * place)
        rows = [[turn, -side, 0, 0.5], [side, turn, 0, 0], [0, 0, 1, 2], [0, 0, 0, 1]]
        Path(f"{name}.pose.txt").write_text("".join("\t ".join(f"{v: .7e}" for v in row) + "\t \n" for row in rows))
    return folder


def kitti(folder: Path, count: int = 3) -> Path:
    """Scans of the sequence 07 with calibration, times and poses."""
    sequence = folder / "sequences" / "07"
    (sequence / "velodyne").mkdir(parents=True)
    for place in range(count):
        np.full((50, 4), place, np.float32).tofile(sequence / "velodyne" / f"{place:06d}.bin")
    camera = "0 -1 0 0.1 0 0 -1 -0.2 1 0 0 -0.3"
    (sequence / "calib.txt").write_text(f"P0: {camera}\nP1: {camera}\nTr: {camera}\n")
    (sequence / "times.txt").write_text("".join(f"{0.1 * place:e}\n" for place in range(count)))
    (folder / "poses").mkdir()
    rows = (f"1 0 0 0 0 1 0 0 0 0 1 {place}\n" for place in range(count))
    (folder / "poses" / "07.txt").write_text("".join(rows))
    return sequence


def authors(folder: Path, count: int = 3, seed: int = 0) -> Path:
    """Pairs of 12 and 10 lines of which 8 match, as lists of float32 arrays, protocol 2."""
    generator = np.random.default_rng(seed)
    lists: dict[str, list[np.ndarray]] = {name: [] for name in ("matches", "plucker1", "plucker2", "R_gt", "t_gt")}
    for _ in range(count):
        turn = np.linalg.qr(generator.normal(size=(3, 3)))[0]
        turn *= np.sign(np.linalg.det(turn))
        shift = generator.normal(size=(3, 1))
        point, direction = generator.normal(size=(2, 14, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        source = np.hstack([np.cross(point, direction), direction])
        moved = np.hstack([np.cross(point @ turn.T + shift.T, direction @ turn.T), direction @ turn.T])
        lists["plucker1"].append(source[:12].astype(np.float32))
        lists["plucker2"].append(moved[4:].astype(np.float32))
        lists["matches"].append(np.stack([np.arange(4, 12), np.arange(8)]).astype(np.int64))
        lists["R_gt"].append(turn.astype(np.float32))
        lists["t_gt"].append(shift.astype(np.float32))
    folder.mkdir(parents=True)
    for name, arrays in lists.items():
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(arrays, protocol=2))
    return folder
