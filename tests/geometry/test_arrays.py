"""Arrays and lists do what tensors do, and errors name the shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import plueckernet as pn
from plueckernet.errors import FormatError, InputError, ShapeError
from plueckernet.geometry import LineSet, Pose, Similarity, join_lines, stack_lines

ENDS = np.random.default_rng(0).normal(size=(5, 2, 3))
POSE = Pose.random(generator=torch.Generator().manual_seed(0))
READ_ONLY = ENDS.copy()
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "values",
    [
        ENDS,
        ENDS.reshape(5, 6),
        ENDS.tolist(),
        ENDS.reshape(5, 6).tolist(),
        READ_ONLY,
        ENDS[::-1][::-1],
        ENDS.astype(">f8"),
    ],
    ids=["array", "six columns", "list", "list of six", "read-only", "reversed", "big endian"],
)
def test_segments_of_any_kind(values):
    assert torch.equal(LineSet.from_segments(values).endpoints, torch.from_numpy(ENDS))


def test_kinds_of_numbers():
    assert LineSet.from_segments(ENDS.astype(np.float32)).direction.dtype == torch.float32
    assert LineSet.from_segments([[0, 0, 0, 1, 2, 3]]).direction.dtype == torch.float64
    assert LineSet.from_segments(np.array([[0, 0, 0, 1, 2, 3]], np.uint16)).direction.dtype == torch.float64
    assert LineSet.from_segments(np.empty((0, 6))).endpoints.shape == (0, 2, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LineSet.from_segments(ENDS[..., :2]),
            r"endpoints: expected shape \(n, 2, 3\) or \(n, 6\), got \(5, 2, 2\)",
        ),
        (lambda: LineSet.from_segments([1, 2, 3]), r"endpoints: .* got \(3,\)"),
        (lambda: LineSet.from_segments([[0, 0, 0, 1, 1, 1]], ids=[1, 2]), r"ids: expected shape \(1,\), got \(2,\)"),
        (
            lambda: LineSet.from_segments([[0, 0, 0, 1, 1, 1]], sigma=[[1]]),
            r"sigma: expected shape \(1,\), got \(1, 1\)",
        ),
        (lambda: Pose.from_matrix(np.eye(3)), r"matrix: expected shape \(4, 4\), got \(3, 3\)"),
        (lambda: POSE @ np.zeros((4, 2)), r"points: expected shape \(n, 3\) or \(3,\), got \(4, 2\)"),
        (lambda: Pose.from_quaternion([1, 0, 0], [0, 0, 0]), r"quaternion: expected shape \(4,\), got \(3,\)"),
        (
            lambda: LineSet.from_point_direction(np.zeros((2, 3)), np.ones((3, 3))),
            r"direction: expected shape \(2, 3\)",
        ),
    ],
)
def test_errors_name_the_shape(make, message):
    with pytest.raises(ShapeError, match=message):
        make()


@pytest.mark.parametrize("values", ["lines", [[0, 0, 0, 1, 1, 1], [2]], None, {"a": 1}, ENDS > 0, ENDS * 1j])
def test_what_is_no_number_is_refused(values):
    with pytest.raises(InputError, match="endpoints: expected"):
        LineSet.from_segments(values)


def test_what_is_no_map_is_refused():
    for wrong in (None, {"a": 1}, b"house.obj"):
        with pytest.raises(InputError, match="expected lines, the path of a file, or end points, got"):
            pn.register(wrong, ENDS)
    for wrong in (3, "house.obj", LineSet.from_segments(ENDS)):
        with pytest.raises(InputError, match="align: expected maps in a list or by name, got"):
            pn.align(wrong)


@pytest.mark.parametrize("name", ["c.xyz", "c.txt", "c.npy", "c.csv"])
def test_points_where_lines_are_read_name_what_extracts_them(tmp_path, name):
    save = np.save if name.endswith("npy") else np.savetxt
    save(tmp_path / name, ENDS[:, 0], **({"delimiter": ","} if name.endswith("csv") else {}))
    with pytest.raises(FormatError, match=r"found .*3\)? \(a point cloud, not lines: `plueckernet extract`"):
        pn.register(tmp_path / name, ENDS)


def test_arrays_where_poses_and_offsets_are_taken(tmp_path):
    lines, matrix = LineSet.from_segments(ENDS), POSE.matrix().tolist()
    torch.testing.assert_close(lines.shifted([1, 2, 3]).endpoints, lines.endpoints - torch.tensor([1.0, 2, 3]))
    torch.testing.assert_close(Pose.exp(POSE.log().tolist()).matrix(), POSE.matrix())
    assert float(POSE.angle_to(matrix)) < 1e-7
    larger = Similarity.from_pose(matrix, 2.0)
    torch.testing.assert_close(larger.matrix(), Similarity.from_pose(POSE, 2.0).matrix())
    torch.testing.assert_close(Similarity.exp(larger.log().numpy()).matrix(), larger.matrix())
    target = larger @ ENDS.reshape(-1, 3)
    for motion in (larger, larger.matrix().numpy()):
        pairs, residuals = pn.coincident_lines(ENDS, target.reshape(-1, 6), motion)
        assert pairs.tolist() == [[row, row] for row in range(5)]
        assert float(residuals.max()) < 1e-6
    with pytest.raises(ShapeError, match=r"xi: expected shape \(6,\), got \(7,\)"):
        Pose.exp(larger.log())


def test_a_report_of_arrays(tmp_path):
    result = pn.refine(ENDS, POSE @ LineSet.from_segments(ENDS), POSE, matcher="descriptors")
    pn.write_report(tmp_path / "a.html", result, ENDS.tolist(), (POSE @ ENDS.reshape(-1, 3)).reshape(-1, 6))
    pn.write_report(tmp_path / "b.html", result, LineSet.from_segments(ENDS), POSE @ LineSet.from_segments(ENDS))
    assert (tmp_path / "a.html").stat().st_size == pytest.approx((tmp_path / "b.html").stat().st_size, abs=2000)


@pytest.mark.parametrize("kind", [list, torch.tensor, np.array])
def test_points_of_any_kind_are_extracted(kind):
    points = np.random.default_rng(0).uniform(size=(2000, 3)) * [4.0, 3.0, 0.0]
    assert len(pn.extract_lines(kind(points.tolist()))) == 4


def test_sigma_is_positive():
    with pytest.raises(InputError, match="sigma"):
        LineSet.from_segments(ENDS, sigma=[1, 1, 0, 1, 1])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int32])
def test_a_pose_moves_points_of_any_type(kind):
    points = (10 * ENDS[:, 0]).astype(kind)
    moved = POSE @ points
    assert isinstance(moved, np.ndarray)
    assert moved.dtype == np.float64
    np.testing.assert_allclose(moved, points.astype(float) @ POSE.rotation.numpy().T + POSE.translation.numpy())
    np.testing.assert_array_equal(POSE @ points.tolist(), moved)
    tensor = POSE @ torch.from_numpy(points)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor, moved)


def test_a_pose_of_less_precision_costs_the_points_none():
    assert (POSE.to(torch.float32) @ ENDS[:, 0]).dtype == np.float64
    assert (POSE.to(torch.float32) @ ENDS[:, 0].astype(np.float32)).dtype == np.float32


def test_one_point_gives_one_point():
    assert (POSE @ [1.0, 2.0, 3.0]).shape == (3,)
    assert (POSE @ torch.zeros(3)).shape == (3,)
    np.testing.assert_allclose(Similarity.from_pose(POSE, 2.0) @ [0, 0, 0], POSE.translation)


def test_matrices_of_any_kind():
    for matrix in (POSE.matrix(), POSE.matrix().numpy(), POSE.matrix().tolist()):
        torch.testing.assert_close(Pose.from_matrix(matrix).matrix(), POSE.matrix())
    assert Pose.from_matrix(np.eye(4, dtype=int)).rotation.dtype == torch.float64


def test_quaternions_go_there_and_back():
    back = Pose.from_quaternion(-3 * POSE.quaternion(), POSE.translation.tolist())
    torch.testing.assert_close(back.matrix(), POSE.matrix())
    assert float(POSE.quaternion()[0]) >= 0
    with pytest.raises(InputError, match="quaternion"):
        Pose.from_quaternion([0, 0, 0, 0], [0, 0, 0])


def test_values_print_as_one_line():
    lines = LineSet.from_segments(ENDS, sigma=np.ones(5))
    assert repr(lines) == "LineSet(5 segments, with sigma)"
    assert repr(lines.infinite()[:2]) == "LineSet(2 infinite lines, with ids, sigma)"
    assert repr(stack_lines([lines, lines])) == "LineSet(2 × 5 segments, with ids, mask, sigma)"
    assert repr(Pose.identity()) == "Pose(0.000°, translation (0.000, 0.000, 0.000))"
    turn = Pose.exp(torch.tensor([0, 0, torch.pi / 2, 0, 0, 0], dtype=torch.float64))
    assert repr(turn) == "Pose(90.000° about (0.000, 0.000, 1.000), translation (0.000, 0.000, 0.000))"
    assert repr(Pose.identity(4)) == "Pose(batch of 4)"
    assert repr(Similarity.from_pose(turn, 2.5)).startswith("Similarity(scale 2.5, Pose(90.000°")


def test_notebooks_show_a_picture_and_a_table():
    page = LineSet.from_segments(ENDS)._repr_html_()
    assert page.count("<svg") == 1
    assert page.count("M") == 5
    assert "<svg" not in LineSet.from_segments(ENDS).infinite()._repr_html_()
    assert POSE._repr_html_().count("<tr>") == 4


def test_joined_sets_keep_what_all_know():
    known = LineSet.from_segments(ENDS, ids=np.arange(5), sigma=np.ones(5))
    joined = join_lines([known, known[2:]])
    assert (len(joined), joined.ids.tolist()[5:], joined.sigma.tolist()) == (8, [2, 3, 4], [1.0] * 8)
    assert join_lines([known, known.replaced(sigma=None)]).sigma is None
    padded = stack_lines([known, known[:2]])
    assert stack_lines([known, known]).sigma.shape == (2, 5)
    second = LineSet(padded.direction[1], padded.moment[1], padded.endpoints[1], mask=padded.mask[1])
    assert len(join_lines([second, known])) == 7
    with pytest.raises(InputError, match="no line sets"):
        join_lines([])


def test_registration_takes_paths_arrays_and_lists(tmp_path):
    generator = torch.Generator().manual_seed(3)
    ends = torch.randn(40, 2, 3, generator=generator, dtype=torch.float64)
    target = POSE @ LineSet.from_segments(ends)
    pn.write_lines(tmp_path / "target.obj", target.endpoints.numpy().reshape(-1, 6))
    result = pn.register(ends.tolist(), str(tmp_path / "target.obj"), matcher="descriptors")
    assert float(result.target_T_source.angle_to(POSE)) < 1e-4
    refined = pn.refine(ends.numpy(), tmp_path / "target.obj", POSE.matrix().tolist(), matcher="descriptors")
    torch.testing.assert_close(refined.target_T_source.matrix(), POSE.matrix(), atol=1e-6, rtol=0)
    rows, _ = pn.coincident_lines(ends, target, POSE.matrix().numpy())
    assert len(rows) == 40
    assert repr(result).startswith("RegistrationResult(success, confidence ")
    assert "<table>" in result._repr_html_()
    torch.testing.assert_close(result.covariance_at([0, 0, 0]), result.covariance)
    many = list(pn.register_many([(ends.tolist(), "missing.obj")], matcher="descriptors"))
    assert "missing.obj" in many[0].reason


def test_what_is_known_of_lines_follows_a_batch_of_poses():
    ends = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lines = LineSet.from_segments(ends, ids=torch.arange(4), sigma=torch.full((4,), 0.01, dtype=torch.float64))
    moved = Pose.random(3, generator=torch.Generator().manual_seed(1)) @ lines
    assert moved.direction.shape == (3, 4, 3)
    assert moved.ids.shape == moved.sigma.shape == (3, 4)
