"""`register()` where the scale is unknown, and where the vertical is known."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.helpers import house, run
from tests.merging.colmap_models import TARGET_T_SOURCE, source_lines, target_lines

from plueckernet import RegistrationResult, Similarity, Status, read_lines, refine, register, register_many, write_lines
from plueckernet.batch import PairRegistration
from plueckernet.data.scenes import make_scene
from plueckernet.errors import InputError
from plueckernet.estimation.settings import RegistrationSettings, direction
from plueckernet.estimation.similarity.search import scale_range
from plueckernet.evaluation.crop_pairs import crop_pair
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import rotation_exp

UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
TRUTH = Similarity.from_pose(Pose.random(generator=torch.Generator().manual_seed(3), translation=20.0), 0.04)
TURN = Pose(rotation_exp(2.5 * UP), torch.tensor([4.0, -7.0, 1.5]).double())


def noisy(lines: LineSet, sigma: float, seed: int) -> LineSet:
    generator = torch.Generator().manual_seed(seed)
    shift = sigma * torch.randn(lines.endpoints.shape, generator=generator, dtype=torch.float64)
    return LineSet.from_segments(lines.endpoints + shift)


def parts(motion: Similarity | Pose, sigma: float = 0.01) -> tuple[LineSet, LineSet]:
    """Two overlapping parts of the house, the second moved."""
    lines = house()
    return noisy(lines[torch.arange(70)], sigma, 1), motion @ noisy(lines[torch.arange(15, 90)], sigma, 2)


@pytest.fixture(scope="module")
def similar() -> RegistrationResult:
    return register(*parts(TRUTH), matcher="descriptors", scale="unknown")


def test_an_unknown_scale_is_found(similar: RegistrationResult) -> None:
    assert similar.status is Status.SUCCESS
    assert isinstance(similar.target_T_source, Similarity)
    assert similar.covariance.shape == (7, 7)
    sigma = math.sqrt(float(similar.covariance[6, 6]))
    assert abs(math.log(similar.scale / 0.04)) < 4 * sigma < 0.02
    assert math.degrees(float(similar.rigid_pose.angle_to(TRUTH.pose))) < 0.5
    moved = similar.target_T_source @ parts(TRUTH)[0].centre()[None]
    assert float((moved - TRUTH @ parts(TRUTH)[0].centre()[None]).norm()) < 0.04 * 0.05
    assert torch.linalg.eigvalsh(similar.covariance_at(moved[0])).min() > 0


def test_many_pairs_take_the_same_arguments(similar: RegistrationResult) -> None:
    (result,) = register_many([parts(TRUTH)], matcher="descriptors", scale="unknown")
    assert result.scale == similar.scale
    (upright,) = PairRegistration("descriptors", RegistrationSettings(up=(0.0, 0.0, 1.0)))([parts(TURN)])
    torch.testing.assert_close(upright.rigid_pose.rotation @ UP, UP)
    identities = [PairRegistration(scale=scale).identity() for scale in (None, "unknown", (0.9, 1.1))]
    assert [identity["scale"] for identity in identities] == [None, "unknown", [0.9, 1.1]]


def test_the_scale_survives_the_file(similar: RegistrationResult, tmp_path: Path) -> None:
    similar.save(tmp_path / "result.json")
    again = RegistrationResult.load(tmp_path / "result.json")
    assert again.scale == similar.scale
    assert {**again.to_dict(), "target_T_source": 0, "alternatives": 0, "sigmas": 0} == {
        **similar.to_dict(), "target_T_source": 0, "alternatives": 0, "sigmas": 0
    }  # fmt: skip
    torch.testing.assert_close(again.target_T_source.matrix(), similar.target_T_source.matrix())
    matrix = torch.tensor(similar.to_dict()["target_T_source"])
    torch.testing.assert_close(torch.linalg.det(matrix[:3, :3]) ** (1 / 3), torch.tensor(similar.scale))


def test_files_are_moved_by_the_scale(similar: RegistrationResult, tmp_path: Path) -> None:
    source, _ = parts(TRUTH)
    similar.save(tmp_path / "result.json")
    write_lines(tmp_path / "a.obj", source)
    np.savetxt(tmp_path / "points.xyz", source.midpoints().numpy())
    for file in ("a.obj", "points.xyz"):
        assert run("apply", tmp_path / "result.json", tmp_path / file, "--out", tmp_path / "moved") == 0
    expected = similar.target_T_source @ source
    torch.testing.assert_close(
        read_lines(tmp_path / "moved" / "a.obj").endpoints, expected.endpoints, atol=1e-5, rtol=0
    )
    np.testing.assert_allclose(np.loadtxt(tmp_path / "moved" / "points.xyz"), expected.midpoints(), atol=1e-5)
    assert run("apply", tmp_path / "moved" / "target_T_source.txt", tmp_path / "a.obj", "--out", tmp_path / "two") == 0
    torch.testing.assert_close(read_lines(tmp_path / "two" / "a.obj").endpoints, expected.endpoints, atol=1e-5, rtol=0)


def test_short_lines_take_part_however_well_the_long_ones_agree() -> None:
    """Their directions are as inaccurate as their ends are."""
    result = register(source_lines(), target_lines(), matcher="descriptors", scale="unknown")
    assert abs(math.log(result.scale / float(TARGET_T_SOURCE.scale))) < 4e-4
    assert result.covariance is not None
    assert float(result.covariance[6, 6].sqrt()) < 1e-3


def test_a_similarity_is_refined(similar: RegistrationResult) -> None:
    rough = Similarity(1.01 * similar.target_T_source.scale, TRUTH.rotation, TRUTH.translation)
    again = refine(*parts(TRUTH), rough, matcher="descriptors")
    assert abs(math.log(again.scale / similar.scale)) < 1e-3


def test_a_scale_in_a_range_that_is_not_one_is_reported() -> None:
    grown = Similarity.from_pose(TURN, 1.03)
    result = register(*parts(grown), matcher="descriptors", scale=(0.9, 1.1))
    assert abs(result.scale - 1.03) < 0.005
    assert any("differ in scale" in warning for warning in result.warnings)


@pytest.mark.parametrize("scale", ["free", (1.1, 0.9), (0, 1), (1, 2, 3), 2.0])
def test_other_scales_are_refused(scale: object) -> None:
    with pytest.raises(InputError, match="scale"):
        scale_range(scale)


def test_a_known_vertical_is_kept() -> None:
    result = register(*parts(TURN), matcher="descriptors", up=(0, 0, 3))
    assert result.status is Status.SUCCESS
    torch.testing.assert_close(result.target_T_source.rotation @ UP, UP, atol=1e-9, rtol=0)
    assert math.degrees(float(result.target_T_source.angle_to(TURN))) < 0.3
    variance = result.covariance.diagonal()
    assert float(variance[:2].max()) < 1e-12 < float(variance[2:].min())
    assert result.settings["up"] == (0, 0, 3)


def test_a_known_vertical_finds_crops_with_a_seventh_in_common() -> None:
    pair = crop_pair(make_scene("varied", 8_300_019), (0.1, 0.2), 8_490_000)
    target = TURN @ (pair.target_T_source.inverse() @ pair.target)
    result = register(pair.source, target, up=(0, 0, 1))
    assert result.status is Status.SUCCESS
    assert math.degrees(float(result.target_T_source.angle_to(TURN))) < 2
    moved = result.target_T_source @ pair.source.centre()[None] - TURN @ pair.source.centre()[None]
    assert float(moved.norm()) < 0.2


def test_a_field_of_poles_is_solved_in_the_plane() -> None:
    generator = torch.Generator().manual_seed(6)
    foot = torch.cat([20 * torch.rand(30, 2, generator=generator), torch.zeros(30, 1)], -1).double()
    poles = LineSet.from_segments(torch.stack([foot, foot + 3 * UP], 1))
    pair = noisy(poles[torch.arange(25)], 0.02, 1), TURN @ noisy(poles[torch.arange(5, 30)], 0.02, 2)
    result = register(*pair, matcher="descriptors", up=(0, 0, 1))
    moved = result.target_T_source @ poles.midpoints() - TURN @ poles.midpoints()
    assert float(moved[:, :2].norm(dim=-1).max()) < 0.1
    assert result.status is Status.SUCCESS
    assert any("height" in warning for warning in result.warnings)


@pytest.mark.parametrize("up", [(0, 0, 0), (0, 1), (0, 0, math.nan)])
def test_what_is_no_direction_is_refused(up: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="up"):
        direction(up)


def test_the_command_line_asks_for_scale_and_vertical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def registered(*_: object, **options: object) -> RegistrationResult:
        asked.append(options)
        return RegistrationResult.without_pose("not asked to", (1, 1), _run(options))

    monkeypatch.setattr("plueckernet.registration.register", registered)
    write_lines(tmp_path / "a.obj", house())
    files = tmp_path / "a.obj", tmp_path / "a.obj", "-q"
    assert run("register", *files, "--similarity", "--up", "0", "1", "0") == 1
    assert run("register", *files, "--scale-range", "0.9", "1.1", "--upright") == 1
    assert [(options["scale"], options["up"]) for options in asked] == [
        ("unknown", (0.0, 1.0, 0.0)),
        ((0.9, 1.1), (0.0, 0.0, 1.0)),
    ]
    assert run("register", *files, "--similarity", "--scale-range", "0.9", "1.1") == 2
    assert run("register", *files, "--upright", "--up", "0", "1", "0") == 2


def _run(options: dict[str, object]):  # type: ignore[no-untyped-def]
    from plueckernet.result import RunRecord

    return RunRecord("none", options["settings"], 0)
