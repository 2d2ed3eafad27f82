"""Control points: exact fits, noise, and what is refused."""

import math

import pytest
import torch

from plueckernet.errors import DegenerateError, FormatError, InputError
from plueckernet.geometry import Pose
from plueckernet.merging import sim3
from plueckernet.merging.control import ControlPoint, fit_world, read_control_points

OFFSET = torch.tensor([691_000.0, 5_334_000.0, 500.0], dtype=torch.float64)
POINTS = torch.tensor([[0, 0, 0], [10, 0, 1], [0, 8, 2], [7, 6, 5]], dtype=torch.float64)


def known(matrix: torch.Tensor, points: torch.Tensor = POINTS) -> list[ControlPoint]:
    world = points @ matrix[:3, :3].mT + matrix[:3, 3]
    return [
        ControlPoint(f"p{row}", tuple(points[row].tolist()), tuple(world[row].tolist())) for row in range(len(points))
    ]


def truth(scale: float = 0.0) -> torch.Tensor:
    matrix = sim3.exp(torch.tensor([0.3, -0.2, 1.1, 0.0, 0.0, 0.0, scale], dtype=torch.float64))
    matrix[:3, 3] = OFFSET
    return matrix


@pytest.mark.parametrize("scale", [0.0, 0.7])
def test_exact_points_in_a_national_grid(scale):
    tie = fit_world(known(truth(scale)), {}, rigid=scale == 0)
    assert torch.allclose(tie.world_T_group.matrix(), truth(scale), atol=1e-7)
    assert tie.rms < 1e-8
    assert float((tie.offset - tie.offset.round()).abs().max()) == 0
    assert float(tie.local_T_group.matrix()[:3, 3].abs().max()) < 20


def test_a_wrong_point_is_told_by_leaving_it_out():
    points = known(truth(), torch.cat([POINTS, POINTS.flip(0) + 3]))
    wrong = ControlPoint("wrong", points[3].position, (points[3].world[0] + 2.0, *points[3].world[1:]))
    points[3] = wrong
    tie = fit_world(points, {})
    worst = max(tie.residuals, key=lambda point: point.left_out)
    assert worst.name == "wrong"
    assert worst.left_out > 1.9
    assert worst.distance == pytest.approx(math.hypot(*worst.residual))


def test_points_of_a_map_are_moved_into_its_group():
    pose = Pose.random(generator=torch.Generator().manual_seed(0), translation=5.0)
    moved = [
        ControlPoint(
            point.name, tuple((pose.inverse() @ torch.tensor(point.position).double()).tolist()), point.world, "b"
        )
        for point in known(truth())
    ]
    tie = fit_world(moved, {"a": Pose.identity(), "b": pose})
    assert torch.allclose(tie.world_T_group.matrix(), truth(), atol=1e-6)
    with pytest.raises(InputError, match="no map of the group is named 'b'"):
        fit_world(moved, {"a": pose})


def test_too_few_points_are_refused():
    with pytest.raises(InputError, match="at least three are needed, there are 2"):
        fit_world(known(truth())[:2], {})


def test_points_on_a_line_are_refused():
    line = torch.tensor([[0, 0, 0], [1, 1, 1], [2, 2, 2], [5, 5, 5]], dtype=torch.float64)
    with pytest.raises(DegenerateError, match="in the map all 4 are on one line"):
        fit_world(known(truth(), line), {})


@pytest.mark.parametrize(
    "text",
    [
        "P1,1,2,3,4,5,6\n# comment\n\nP2, 1,2,3, 4,5,6\n",
        "east,north,height,name,x,y,z\n4,5,6,P1,1,2,3\n4,5,6,P2,1,2,3\n",
        "\ufeffname,x,y,z,world_x,world_y,world_z\nP1,1,2,3,4,5,6\nP2,1,2,3,4,5,6\n",
    ],
)
def test_columns_in_any_order(tmp_path, text):
    path = tmp_path / "points.csv"
    path.write_text(text, encoding="utf-8")
    points = read_control_points(path)
    assert points == [ControlPoint(name, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)) for name in ("P1", "P2")]


def test_a_column_names_the_map(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("P1,a.obj,1,2,3,4,5,6\n")
    assert read_control_points(path)[0].map == "a.obj"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("P1,1,2,3,4,5,6\nP2,1,2,x,4,5,6\n", ":2: z: expected a number, found 'x'"),
        ("P1,1,2,nan,4,5,6\n", ":1: z: expected a finite number"),
        ("P1,1,2,3\n", ":1: expected name, x, y, z, world x, y, z"),
        ("", "there are no control points"),
    ],
)
def test_bad_files_say_where(tmp_path, text, reason):
    path = tmp_path / "points.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=reason):
        read_control_points(path)
