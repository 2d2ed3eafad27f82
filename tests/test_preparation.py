"""Published datasets are converted to folders of scenes, with interruptions at any point."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.data.datasets import published

from plueckernet.data.datasets.frames import SensorFrame
from plueckernet.data.datasets.semantic3d import PUBLISHED
from plueckernet.data.prepared import prepared_pairs, prepared_scenes, read_index
from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.stream import StreamSettings, make_chunk
from plueckernet.errors import FormatError, InputError
from plueckernet.evaluation.datasets import Prepared
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import read_lines
from plueckernet.preparation import census, prepare


class PowerCutError(Exception):
    """Stands for an interruption at any point."""


def fake_lines(frame: SensorFrame) -> LineSet:
    """Random lines seeded by the name of the frame, faster than extraction."""
    generator = torch.Generator().manual_seed(sum(frame.name.encode()))
    return LineSet.from_segments(30 * torch.rand(300, 2, 3, generator=generator, dtype=torch.float64))


def no_lines(_: SensorFrame) -> LineSet:
    return LineSet.from_segments(torch.zeros(0, 2, 3, dtype=torch.float64))


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_structured3d_becomes_scenes_that_make_pairs(tmp_path: Path) -> None:
    published.structured3d(tmp_path / "Structured3D", count=10)
    index = prepare("structured3d", tmp_path / "Structured3D", tmp_path / "out")
    assert [len(index.of_split(split)) for split in ("train", "test")] == [8, 2]
    assert sorted(path.parent.name for path in (tmp_path / "out").glob("*/*.npz")) == ["test"] * 2 + ["train"] * 8
    assert read_index(tmp_path / "out") == index
    for scene in prepared_scenes(tmp_path / "out", "train"):
        pair = sample_pair(scene, ScanProtocol(), 0)
        assert len(scene) == 12
        assert len(pair.source) > 0


def test_an_interrupted_run_continues_with_the_same_result(tmp_path: Path) -> None:
    (tmp_path / "chess").mkdir()
    frames = published.seven_scenes(tmp_path / "chess", count=5)
    prepare("7scenes", frames, tmp_path / "whole", lines_of=fake_lines)
    asked: list[str] = []

    def failing(frame: SensorFrame) -> LineSet:
        asked.append(frame.name)
        if asked.count("frame-000003") == 1 and frame.name == "frame-000003":
            raise PowerCutError
        return fake_lines(frame)

    with pytest.raises(PowerCutError):
        prepare("7scenes", frames, tmp_path / "broken", lines_of=failing)
    with pytest.raises(FormatError, match=r"index.json: no such file"):
        read_index(tmp_path / "broken")
    prepare("7scenes", frames, tmp_path / "broken", lines_of=failing)
    assert asked == [f"frame-00000{place}" for place in (0, 1, 2, 3, 3, 4)]  # only the failed frame is repeated
    assert content(tmp_path / "broken") == content(tmp_path / "whole")


def test_a_run_interrupted_while_moving_scenes_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published.structured3d(tmp_path / "s", count=4)
    prepare("structured3d", tmp_path / "s", tmp_path / "whole")

    def power_cut(*_: object) -> None:
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr("plueckernet.preparation.steps.write_index", power_cut)
        with pytest.raises(PowerCutError):
            prepare("structured3d", tmp_path / "s", tmp_path / "broken")
    prepare("structured3d", tmp_path / "s", tmp_path / "broken")
    assert content(tmp_path / "broken") == content(tmp_path / "whole")


def test_other_settings_are_not_mixed_in(tmp_path: Path) -> None:
    published.structured3d(tmp_path / "s", count=2)
    (tmp_path / "s" / "scene_00001" / "annotation_3d.json").write_text("{}")
    with pytest.raises(FormatError, match="scene_00001"):
        prepare("structured3d", tmp_path / "s", tmp_path / "out")
    with pytest.raises(InputError, match="begun with"):
        prepare("structured3d", tmp_path / "s", tmp_path / "out", seed=1)
    (tmp_path / "s" / "scene_00001" / "annotation_3d.json").unlink()
    prepare("structured3d", tmp_path / "s", tmp_path / "out")  # it continues without the broken scene
    with pytest.raises(InputError, match="already"):
        prepare("structured3d", tmp_path / "s", tmp_path / "out")


def test_frames_pair_with_the_one_before(tmp_path: Path) -> None:
    sequence = published.kitti(tmp_path)
    index = prepare("kitti", sequence, tmp_path / "out", lines_of=fake_lines)
    pairs = list(prepared_pairs(tmp_path / "out", "test"))
    assert [(pair.source, pair.target) for pair in index.pairs] == [
        ("07__000001", "07__000000"),
        ("07__000002", "07__000001"),
    ]
    # Driving forward, the origin of the later scan lies ahead of the earlier one.
    assert [pair.target_T_source.translation.tolist() for pair in pairs] == [pytest.approx([1, 0, 0])] * 2
    assert len(pairs[0].matches) == 0
    assert index.of_split("train") == []


def test_apollo_frames_pair_within_their_record(tmp_path: Path) -> None:
    published.apollo(tmp_path / "a")
    index = prepare("apollo", tmp_path / "a", tmp_path / "out", lines_of=fake_lines)
    assert len(index.pairs) == 2
    assert index.scenes[0].name == "Record001_Camera_5__170927_063811892_Camera_5"


@pytest.mark.parametrize("inside", [False, True], ids=["the folder of both", "the road"])
def test_apollo_frames_on_either_side_of_a_gap_are_no_pair(tmp_path: Path, inside: bool) -> None:
    published.apollo(tmp_path / "a", count=6)
    source = tmp_path / "a" / "road02_ins" if inside else tmp_path / "a"
    next((tmp_path / "a").glob("**/170927_063812892_Camera_5.png")).unlink()
    next((tmp_path / "a").glob("**/170927_063815892_Camera_5.jpg")).unlink()
    assert census("apollo", source) == "found 4 of 6 frames; 2 lack an image"
    index = prepare("apollo", source, tmp_path / "out", lines_of=fake_lines)
    frames = "Record001_Camera_5__170927_0638{}892_Camera_5"
    assert index.dropped == {frames.format(12): "no depth image", frames.format(15): "no colour image"}
    assert [(pair.source, pair.target) for pair in index.pairs] == [(frames.format(14), frames.format(13))]


def test_frames_without_lines_are_left_out_by_name(tmp_path: Path) -> None:
    published.tum(tmp_path / "t", listed=True)
    index = prepare(
        "tum", tmp_path / "t", tmp_path / "out", lines_of=lambda f: no_lines(f) if f.name == "0" else fake_lines(f)
    )
    assert index.dropped == {"t__0": "no lines found"}
    assert [scene.name for scene in index.scenes] == ["t__1"]
    with pytest.raises(InputError, match="no scene is left; 2 were dropped"):
        prepare("tum", tmp_path / "t", tmp_path / "none", lines_of=no_lines)


@pytest.mark.parametrize("name", ["bildstein_station1_xyz", "sg27_station10"])
def test_semantic3d_becomes_cells_with_their_corner_at_the_origin(tmp_path: Path, name: str) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / f"{name}_intensity_rgb.txt").touch()
    index = prepare("semantic3d", tmp_path / "s", tmp_path / "out", lines_of=fake_lines)
    assert len(index.scenes) > 3
    assert all(scene.lines >= 20 for scene in index.scenes)
    for scene in index.scenes:
        lines = read_lines(tmp_path / "out" / scene.file)
        assert bool(((lines.midpoints()[:, :2] >= 0) & (lines.midpoints()[:, :2] < 10)).all())
        world_T_scene = Pose.from_matrix(torch.tensor(scene.world_T_scene, dtype=torch.float64))
        column, row = (world_T_scene.translation[:2] / 10).long().tolist()
        assert scene.name == f"{name.removesuffix('_xyz')}_{column}_{row}"
        assert float((world_T_scene @ lines).midpoints()[:, 0].min()) >= 10 * column


def test_all_published_scans_are_prepared(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for name in PUBLISHED:
        (tmp_path / "s" / f"{name}.txt").touch()
    assert census("semantic3d", tmp_path / "s") == "found 30 of 30 published scans"
    index = prepare("semantic3d", tmp_path / "s", tmp_path / "out", lines_of=fake_lines)
    assert len({scene.name.rsplit("_", 2)[0] for scene in index.scenes}) == 30
    (tmp_path / "s" / "sg28_station2_intensity_rgb.txt").unlink()
    assert census("semantic3d", tmp_path / "s").startswith("found 29 of 30 published scans; missing: sg28_station2_")


def test_scenes_are_trained_and_evaluated_in_the_frame_they_were_prepared_in(tmp_path: Path) -> None:
    """The defect that this excludes: a cell at (66, 43) that training moved to the origin and evaluation did not."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "neugasse_station1_xyz_intensity_rgb.txt").touch()

    def distant(frame: SensorFrame) -> LineSet:
        return fake_lines(frame).shifted(torch.tensor([-660.0, -430.0, 0.0], dtype=torch.float64))

    prepare("semantic3d", tmp_path / "s", tmp_path / "out", lines_of=distant)
    evaluated = [Prepared("outdoor", tmp_path / "out").scene(0).midpoints()[:, :2]]
    settings = StreamSettings("paper", lines=str(tmp_path / "out" / "train"), pool=8, fresh=8, stored=64)
    trained, counts = make_chunk(settings, 0, range(8))
    evaluated += [torch.from_numpy(trained[i, :n]).mean(1)[:, :2] for i, n in enumerate(counts)]
    for places in evaluated:
        assert bool(((places >= -1e-5) & (places <= 10 + 1e-5)).all())
        assert float(places.max()) > 5  # not moved to its mean, either


def test_houses_have_their_origin_in_the_middle_of_the_plan(tmp_path: Path) -> None:
    published.structured3d(tmp_path / "s", count=1)
    index = prepare("structured3d", tmp_path / "s", tmp_path / "out")
    lines = read_lines(tmp_path / "out" / index.scenes[0].file)
    assert lines.endpoints.amin((0, 1)).tolist() == pytest.approx([-2.0, -1.5, 0.0])
    assert lines.endpoints.amax((0, 1)).tolist() == pytest.approx([2.0, 1.5, 2.5])


def test_processes_prepare_the_same(tmp_path: Path) -> None:
    published.structured3d(tmp_path / "s", count=4)
    prepare("structured3d", tmp_path / "s", tmp_path / "serial")
    seen: list[float] = []
    prepare("structured3d", tmp_path / "s", tmp_path / "parallel", workers=2, progress=seen.append)
    assert content(tmp_path / "parallel") == content(tmp_path / "serial")
    assert seen == [0.25, 0.5, 0.75, 1.0]


def test_authors_pairs_keep_split_pose_and_matches(tmp_path: Path) -> None:
    published.authors(tmp_path / "p" / "semantic3D_train", count=2)
    published.authors(tmp_path / "p" / "semantic3D_valid", count=1, seed=1)
    prepare("authors", tmp_path / "p", tmp_path / "out")
    assert len(list(prepared_pairs(tmp_path / "out", "train"))) == 2
    (pair,) = prepared_pairs(tmp_path / "out", "test")
    moved = pair.target_T_source @ pair.source[pair.matches[:, 0]]
    torch.testing.assert_close(moved.pluecker(), pair.target[pair.matches[:, 1]].pluecker(), atol=1e-5, rtol=0)


def test_authors_datasets_are_not_mixed(tmp_path: Path) -> None:
    for seed, name in enumerate(("structured3D_train", "structured3D_valid", "semantic3D_valid")):
        published.authors(tmp_path / "p" / name, count=2, seed=seed)
    with pytest.raises(FormatError, match="prepare authors-semantic3d or authors-structured3d"):
        prepare("authors", tmp_path / "p", tmp_path / "mixed")
    index = prepare("authors-structured3d", tmp_path / "p", tmp_path / "houses")
    assert {scene.name.rsplit("_", 3)[0] for scene in index.scenes} == {"structured3D"}
    assert [pair.split for pair in index.pairs] == ["train", "train", "test", "test"]
    with pytest.raises(FormatError, match="no folder apollo_train"):
        prepare("authors-apollo", tmp_path / "p", tmp_path / "none")


def test_missing_datasets_and_indices_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown dataset 'scannet'"):
        prepare("scannet", tmp_path, tmp_path / "out")
    with pytest.raises(FormatError, match="expected a folder"):
        prepare("tum", tmp_path / "none", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "index.json").write_text('{"schema": 7}')
    with pytest.raises(FormatError, match="schema 1"):
        read_index(tmp_path)
    (tmp_path / "index.json").write_text("[]")
    with pytest.raises(FormatError, match="not the index"):
        read_index(tmp_path)
