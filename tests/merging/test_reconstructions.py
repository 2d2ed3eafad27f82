"""Two COLMAP models of one scene without a common image are aligned by their lines and merged."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli.helpers import run
from tests.merging import colmap_models as made

from plueckernet import RegistrationResult, Status, read_lines, registration, write_lines
from plueckernet.errors import FormatError, InputError, MissingDependencyError
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.interop.colmap import load_pycolmap, merge_reconstructions, read_reconstruction, to_sim3d
from plueckernet.io import read_lines_report
from plueckernet.io.limap2 import read_tracks
from plueckernet.io.limap_structures import NO_LINE
from plueckernet.io.source import Source
from plueckernet.merging import align_reconstructions
from plueckernet.merging.reconstructions import read_model, write_models
from plueckernet.result import RunRecord

pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both models and what the command makes of them."""
    folder = tmp_path_factory.mktemp("colmap")
    source = made.write_model(folder / "a", made.source_model(), made.source_lines())
    target = made.write_model(folder / "b", made.reconstruction(2, folder="other/"), made.target_lines())
    options = ("--matcher", "descriptors", "--json", folder / "result.json", "--quiet")
    assert run("align-colmap", source, target, "--out", folder / "c", *options) == 0
    return folder


@pytest.fixture
def registered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> RegistrationResult:
    """The result of the command, which others get without a search."""
    result = RegistrationResult.load(folder / "result.json")
    monkeypatch.setattr(registration, "register", lambda *_, **__: result)
    return result


def without_pose() -> RegistrationResult:
    run_record = RunRecord("descriptors", RegistrationSettings(), 0)
    return RegistrationResult.without_pose("too few lines", (70, 75), run_record)


def same_model(a: Any, b: Any, atol: float = 1e-9) -> None:
    assert (set(a.rigs), set(a.cameras), set(a.frames)) == (set(b.rigs), set(b.cameras), set(b.frames))
    assert {number: image.name for number, image in a.images.items()} == {n: i.name for n, i in b.images.items()}
    for number, point in a.points3D.items():
        np.testing.assert_allclose(b.point3D(number).xyz, point.xyz, atol=atol)
        assert b.point3D(number).track.length() == point.track.length()
    for number, image in a.images.items():
        np.testing.assert_allclose(
            b.image(number).cam_from_world().matrix(), image.cam_from_world().matrix(), atol=atol
        )


def test_points_of_the_merged_model_coincide(folder: Path) -> None:
    merged = pycolmap.Reconstruction(str(folder / "c" / "merged"))
    assert merged.is_valid()
    assert (merged.num_rigs(), merged.num_cameras(), merged.num_frames(), merged.num_images()) == (2, 4, 6, 12)
    assert merged.num_points3D() == 2 * len(made.POINTS)
    for row, point in enumerate(made.POINTS):
        same = [other.xyz for other in merged.points3D.values() if other.color[0] == row]
        assert len(same) == 2
        np.testing.assert_allclose(same, [point, point], atol=0.03)


def test_cameras_of_the_merged_model_see_what_they_saw(folder: Path) -> None:
    merged = pycolmap.Reconstruction(str(folder / "c" / "merged"))
    merged.update_point_3d_errors()
    assert max(point.error for point in merged.points3D.values()) < 1e-6  # rigs are scaled, too
    assert {image.num_points3D for image in merged.images.values()} == {len(made.POINTS)}
    assert len({image.name for image in merged.images.values()}) == 12


def test_lines_are_moved_and_merged_with_what_supports_them(folder: Path) -> None:
    tracks = read_tracks(Source(folder / "c" / "merged" / "structures" / "lines3D.bin"))
    assert len({track.number for track in tracks}) == len(tracks) == 70 + 75
    merged = pycolmap.Reconstruction(str(folder / "c" / "merged"))
    names = [{merged.image(image).name.split("/")[0] for image, _ in track.support} for track in tracks]
    assert [kind == {"other"} for kind in names] == [True] * 75 + [False] * 70
    assert {track.uncertainty for track in tracks[:75]} == {0.25}
    scale = RegistrationResult.load(folder / "result.json").scale
    assert {track.uncertainty for track in tracks[75:]} == {0.25 * scale}
    expected = (made.TARGET_T_SOURCE @ made.source_lines()).endpoints
    torch.testing.assert_close(read_lines(folder / "c" / "moved").endpoints, expected, atol=0.05, rtol=0)


def test_the_moved_model_keeps_numbers_and_names(folder: Path) -> None:
    motion = RegistrationResult.load(folder / "result.json").target_T_source
    moved = pycolmap.Reconstruction(str(folder / "c" / "moved"))
    moved.transform(to_sim3d(motion.inverse()))
    same_model(pycolmap.Reconstruction(str(folder / "a")), moved, atol=1e-8)
    same_model(made.source_model(), moved, atol=1e-8)


def test_reconstructions_in_memory_give_a_sim3d(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = RegistrationResult.load(folder / "result.json")
    monkeypatch.setattr("plueckernet.merging.reconstructions.register", lambda *_, **__: result)
    source, target = made.source_model(), made.reconstruction(2)
    lines = (made.source_lines(), folder / "b")
    target_T_source, returned = align_reconstructions(source, target, lines, matcher="descriptors")
    assert isinstance(target_T_source, pycolmap.Sim3d)
    assert returned is result
    np.testing.assert_allclose(target_T_source.matrix(), result.target_T_source.matrix()[:3])
    source.transform(target_T_source)
    for number, point in source.points3D.items():
        np.testing.assert_allclose(point.xyz, target.point3D(number).xyz, atol=0.03)
    failed = without_pose()
    monkeypatch.setattr("plueckernet.merging.reconstructions.register", lambda *_, **__: failed)
    assert align_reconstructions(source, target, (folder / "c" / "moved", lines[1])) == (None, failed)


def test_numbers_and_names_that_collide_are_changed() -> None:
    source, target = made.source_model(), made.reconstruction(1, frames=2)
    merged = merge_reconstructions(source, target)
    assert merged.renamed == tuple(sorted(image.name for image in target.images.values()))
    names = [image.name for image in merged.reconstruction.images.values()]
    assert len(set(names)) == len(names) == 6 + 4
    assert sum(name.startswith("source/") for name in names) == 6
    for number, image in source.images.items():
        again = merged.reconstruction.image(merged.numbers.images[number])
        assert again.name == f"source/{image.name}"
        np.testing.assert_array_equal(again.cam_from_world().matrix(), image.cam_from_world().matrix())
        assert [point.has_point3D() for point in again.points2D] == [point.has_point3D() for point in image.points2D]
    same_model(source, made.source_model())
    same_model(target, made.reconstruction(1, frames=2))


def test_what_is_not_accepted_is_not_written(
    folder: Path, registered: RegistrationResult, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ambiguous = replace(registered, status=Status.AMBIGUOUS, reason="two poses fit")
    monkeypatch.setattr(registration, "register", lambda *_, **__: ambiguous)
    command = ("align-colmap", folder / "a", folder / "b", "--out", folder / "not")
    assert run(*command) == 1
    assert not (folder / "not").exists()
    assert "not written: two poses fit" in capsys.readouterr().err
    assert run(*command, "--force") == 0
    assert "though the pose is not accepted: two poses fit" in capsys.readouterr().err
    assert (folder / "not" / "merged" / "frames.bin").is_file()
    failed = without_pose()
    monkeypatch.setattr(registration, "register", lambda *_, **__: failed)
    assert run("align-colmap", folder / "a", folder / "b", "--out", folder / "nothing", "--force") == 1
    assert not (folder / "nothing").exists()


def test_lines_may_be_in_files_of_their_own(folder: Path, registered: RegistrationResult, tmp_path: Path) -> None:
    bare = made.write_model(tmp_path / "bare", made.source_model(), None)
    write_lines(tmp_path / "lines.npz", made.source_lines())
    command = ("align-colmap", bare, folder / "b", "--out", tmp_path / "deep" / "c", "--quiet")
    assert run(*command, "--source-lines", tmp_path / "lines.npz") == 0
    assert len(read_lines(tmp_path / "deep" / "c" / "moved")) == 70
    assert len(read_lines(tmp_path / "deep" / "c" / "merged")) == 70 + 75
    assert run(*command[:4], tmp_path / "d") == 2  # a model without lines


def test_bad_input_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out, reason in ((folder / "c", "is not an empty folder"), (folder / "a", "is an input")):
        assert run("align-colmap", folder / "a", folder / "b", "--out", out) == 2
        assert reason in capsys.readouterr().err
    model, lines = made.source_model(), made.source_lines().endpoints + 1e5
    with pytest.raises(InputError, match=r"source: its lines are .* times the size of the model away"):
        align_reconstructions(model, model, (lines, lines))
    (tmp_path / "cameras.bin").write_bytes(bytes(3))
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(FormatError, match=r"COLMAP model|ends too early"):
            read_reconstruction(path)


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    with pytest.raises(MissingDependencyError, match=r"plueckernet\[colmap\]"):
        load_pycolmap()


def limap_model(folder: Path) -> Path:
    """The target, written by LIMAP: a line for each segment of two images, a wireframe and a group."""
    from limap.geometry import GroupType, Line2d, Line3d
    from limap.scene import AssociatedFeature2d, Group2d, Group3d, HolisticReconstruction, Structure2d, Wireframe2d

    model = HolisticReconstruction(made.reconstruction(2))
    structures = model.structure_recon
    for image in model.point_recon.images.values():
        segments = [Line2d(np.array([row, 1.0]), np.array([row, 9.0])) for row in range(4)]
        wireframe = Wireframe2d()
        wireframe.add_edge(1, 2, 0.5)
        group = Group2d(GroupType.VP, [], [AssociatedFeature2d(idx=place, w=1.0) for place in range(3)])
        structures.add_structure2d(image.image_id, Structure2d(segments, [group], wireframe, image.num_points2D()))
    for row, ends in enumerate(made.target_lines().endpoints[:3].tolist()):
        number = structures.add_line3D(Line3d(ends[0], ends[1], 0.5))
        for image in (10, 11):
            structures.add_line_observation(number, pycolmap.TrackElement(image, row))
    structures.wireframe.add_edge(7, number, 0.75)
    structures.add_group3D(Group3d(GroupType.VP, [0.0, 0.0, 1.0]))
    folder.mkdir()
    model.write(str(folder))
    return folder


def test_limap_reads_the_merged_model_of_a_model_that_it_wrote(tmp_path: Path) -> None:
    pytest.importorskip("limap", reason="pylimap is not installed", exc_type=ImportError)
    if f"pycolmap=={pycolmap.__version__}" not in (metadata.requires("pylimap") or ()):
        pytest.skip(f"pylimap was built for another version than pycolmap {pycolmap.__version__}")
    from limap.scene import HolisticReconstruction

    target = limap_model(tmp_path / "limap")
    source = made.write_model(tmp_path / "a", made.source_model(), made.source_lines())
    for order, image, first_line in (((source, target), 10, 1), ((target, source), 16, 73)):
        models = [read_model(path, read_lines_report(path)) for path in order]
        notes = write_models(tmp_path / "c", *models, made.TARGET_T_SOURCE)
        assert any("groups were left out" in note for note in notes)
        merged = HolisticReconstruction(str(tmp_path / "c" / "merged"))
        assert merged.check_validity()
        structures = merged.structure_recon
        assert structures.num_lines3D() == 3 + 70
        lines = [segment.line3D_id for segment in structures.structure2d(image).lines]
        assert lines == [first_line, first_line + 1, first_line + 2, NO_LINE]
        assert {element.image_id for element in structures.line(first_line).track.elements} == {image, image + 1}
        (edge,) = structures.wireframe.get_all_edges()
        assert (edge.line_idx, edge.w) == (first_line + 2, 0.75)
        assert edge.point_idx == (7 if image == 10 else len(made.POINTS) + 7)
        assert structures.structure2d(image).wireframe.count_edges() == 1
    same_model(pycolmap.Reconstruction(str(target)), made.reconstruction(2))


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("frames.bin", lambda data: data[:-4], "frames.bin: the file ends too early"),
        ("points3D.bin", lambda _: bytes(8), "there is no point"),
        ("images.bin", lambda _: bytes(8), "Image with ID 10 does not exist"),
    ],
)
def test_models_that_do_not_hold_what_they_declare(tmp_path: Path, name, damage, reason: str) -> None:
    """COLMAP itself reads on at the end of files, and points may refer to what is not there."""
    file = made.write_model(tmp_path / "a", made.reconstruction(1), None) / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(FormatError, match=reason):
        read_reconstruction(tmp_path / "a")
