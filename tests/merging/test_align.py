"""`align` from maps to groups, with registrations that are made up: fast, and right or wrong as wanted."""

import json
from dataclasses import replace

import pytest
import torch
from tests.cli.helpers import chaos, house

from plueckernet.errors import InputError
from plueckernet.estimation.judgement import Status
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.merging import AlignSettings, ControlPoint, align, georeference, merge_group
from plueckernet.merging.candidates import RetrievalSettings, further_pairs
from plueckernet.merging.heap import MapHeap
from plueckernet.merging.output import write_alignment
from plueckernet.result import RegistrationResult, RunRecord
from plueckernet.retrieval import candidate_pairs, overlap_scores


class FakeRegister:
    """Knows the pose of each map, which it tells by the number of its lines; fails for unknown maps."""

    def __init__(self, maps: dict[str, tuple[LineSet, Pose]]) -> None:
        self.poses = {len(lines): pose @ _shift(lines.centre()) for lines, pose in maps.values()}
        self.calls = 0

    def __call__(self, pairs):
        for source, target in pairs:
            self.calls += 1
            run = RunRecord("fake", RegistrationSettings(), 0)
            result = RegistrationResult.without_pose("no overlap", (len(source), len(target)), run)
            if len(source) in self.poses and len(target) in self.poses:
                result = self._right(result, self.poses[len(target)].inverse() @ self.poses[len(source)])
            yield result

    def _right(self, result: RegistrationResult, pose: Pose) -> RegistrationResult:
        covariance = 1e-4 * torch.eye(6, dtype=torch.float64)
        settings = result.settings | {"inlier_distance": 0.1}
        return replace(
            result,
            status=Status.SUCCESS,
            target_T_source=pose,
            covariance=covariance,
            confidence=0.99,
            settings=settings,
            reason="",
        )


def _shift(centre: torch.Tensor) -> Pose:
    return Pose(torch.eye(3, dtype=torch.float64), centre)


def places(count: int, offset: float = 0.0) -> dict[str, tuple[LineSet, Pose]]:
    """Overlapping halves of the house in random frames, with ``place_T_map``."""
    maps = {}
    for number in range(count):
        generator = torch.Generator().manual_seed(number)
        pose = Pose.random(generator=generator, translation=20.0)
        pose = Pose(pose.rotation, pose.translation + offset)
        lines = house()[torch.arange(8 * number, 8 * number + 50 + number)].replaced(ids=None)
        maps[f"m{number}"] = pose @ lines, pose.inverse()
    return maps


def lines_of(maps: dict[str, tuple[LineSet, Pose]]) -> dict[str, LineSet]:
    return {name: lines for name, (lines, _) in maps.items()}


@pytest.mark.parametrize("offset", [0.0, 3.0e6])
def test_poses_are_those_of_the_maps_wherever_they_are(offset):
    maps = places(4, offset)
    alignment = align(lines_of(maps), register_pairs=FakeRegister(maps))
    assert alignment.ok
    (group,) = alignment.groups
    reference = group.maps[0]
    assert torch.equal(group.poses[reference].matrix(), torch.eye(4, dtype=torch.float64))
    for name, (_, place_T_map) in maps.items():
        truth = maps[reference][1].inverse() @ place_T_map
        centre = alignment.centres[name]
        assert float((group.poses[name] @ centre - truth @ centre).norm()) < 1e-6


def test_maps_of_other_places_are_groups_of_their_own():
    maps = places(3)
    lines = lines_of(maps) | {"other": chaos(33, 0)}
    alignment = align(lines, register_pairs=FakeRegister(maps))
    assert not alignment.ok
    assert [sorted(group.maps) for group in alignment.groups] == [["m0", "m1", "m2"], ["other"]]
    assert alignment.group_of("other").maps == ("other",)
    assert {edge.verdict for edge in alignment.edges if "other" in (edge.source, edge.target)} == {"no pose"}


def test_an_interrupted_alignment_goes_on(tmp_path):
    maps = places(4)
    stopping = FakeRegister(maps)

    def stopped(pairs):
        for result in stopping(pairs):
            if stopping.calls == 3:
                raise KeyboardInterrupt
            yield result

    with pytest.raises(KeyboardInterrupt):
        align(lines_of(maps), folder=tmp_path, register_pairs=stopped)
    kept = list((tmp_path / "pairs").glob("*.json"))
    assert len(kept) == 2
    kept[0].write_text("{", encoding="utf-8")  # a damaged file is registered again
    again = FakeRegister(maps)
    resumed = align(lines_of(maps), folder=tmp_path, register_pairs=again)
    whole = align(lines_of(maps), register_pairs=FakeRegister(maps))
    assert again.calls == len(whole.edges) - 1
    for name, pose in whole.groups[0].poses.items():
        assert torch.allclose(resumed.groups[0].poses[name].matrix(), pose.matrix(), atol=1e-9)


def test_other_settings_and_other_maps_do_not_use_what_is_kept(tmp_path):
    maps = places(2)
    align(lines_of(maps), folder=tmp_path, register_pairs=FakeRegister(maps))
    other = FakeRegister(maps)
    align(lines_of(maps), folder=tmp_path, register_pairs=other, seed=1)
    assert other.calls == 1
    moved = {
        name: (lines.shifted(torch.full((3,), 0.1).double() * number), pose)
        for number, (name, (lines, pose)) in enumerate(maps.items())
    }
    same = FakeRegister(maps)
    align(lines_of(moved), folder=tmp_path, register_pairs=same)
    assert same.calls <= 1  # a shifted map is about its centre the same, up to rounding


def test_the_folder_says_where_every_line_comes_from(tmp_path):
    maps = places(3)
    alignment = align(lines_of(maps), folder=tmp_path, register_pairs=FakeRegister(maps))
    write_alignment(tmp_path, alignment)
    document = json.loads((tmp_path / "align.json").read_text())
    assert list(document["groups"][0]["maps"]) == list(alignment.groups[0].maps)
    assert {"source", "target", "status", "confidence", "accepted"} <= set(document["edges"][0])
    rows = (tmp_path / "group_1" / "provenance.csv").read_text().splitlines()[1:]
    assert len(rows) == sum(len(lines) for lines, _ in maps.values())
    assert (tmp_path / "group_1" / "graph.g2o").exists()


def test_an_earlier_alignment_leaves_no_groups_behind(tmp_path):
    maps = places(3)
    alignment = align(lines_of(maps), register_pairs=FakeRegister(maps))
    stale = tmp_path / "group_2"
    stale.mkdir()
    (stale / "merged.npz").write_text("")
    (tmp_path / "group_3").mkdir()
    (tmp_path / "group_3" / "notes.txt").write_text("mine")
    write_alignment(tmp_path, alignment)
    assert not stale.exists()
    assert (tmp_path / "group_3" / "notes.txt").exists()


def test_control_points_of_a_group_that_has_too_few_name_it():
    maps = places(2)
    other = {"other": chaos(33, 0)}
    alignment = align(lines_of(maps) | other, register_pairs=FakeRegister(maps))
    points = [ControlPoint(str(row), (float(row), float(row % 2), 0.0), (0.0, 0.0, 0.0), "other") for row in range(2)]
    with pytest.raises(InputError, match="at least three are needed"):
        georeference(alignment, points)
    more = [ControlPoint("m", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), "m0"), *points]
    with pytest.raises(InputError, match="group 1: control points: at least three"):
        georeference(alignment, more)


def test_warnings_of_registrations_are_in_the_document():
    maps = places(2)

    def warned(pairs):
        return (replace(result, warnings=("the units may differ",)) for result in FakeRegister(maps)(pairs))

    document = align(lines_of(maps), register_pairs=warned).to_dict()
    assert [edge["warnings"] for edge in document["edges"]] == [["the units may differ"]]


def test_progress_ends_at_all():
    maps, seen = places(3), []
    align(lines_of(maps), register_pairs=FakeRegister(maps), on_pair=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(("maps", "reason"), [([], "no maps"), ({"a": chaos(2, 0)}, "a: it has 2 lines")])
def test_bad_maps_are_named(maps, reason):
    with pytest.raises(InputError, match=reason):
        align(maps)


def test_maps_that_resemble_each_other_are_tried_first():
    maps = [lines for lines, _ in places(3).values()] + [chaos(60, seed) for seed in range(4)]
    scores = overlap_scores(maps)
    assert set(scores.argmax(1)[:3].tolist()) <= {0, 1, 2}
    assert candidate_pairs(scores, 1)[0] in {(0, 1), (0, 2), (1, 2)}
    assert torch.equal(scores, scores.mT)


def test_scores_of_maps_of_unknown_units_do_not_depend_on_the_unit():
    maps = [lines for lines, _ in places(2).values()] + [chaos(60, seed) for seed in range(2)]
    scaled = [maps[0], LineSet.from_segments(100 * maps[1].endpoints), *maps[2:]]
    heaps = [MapHeap.of(lines, same_unit=False) for lines in (maps, scaled)]
    assert torch.allclose(*[overlap_scores(heap.lines) for heap in heaps], atol=1e-2)


def test_a_map_with_a_contradicted_edge_is_registered_to_more_maps():
    """Of the first pairs one is wrong and as confident as the others; the later ones show which."""
    maps = places(5)
    right, seen = FakeRegister(maps), []

    def first_is_wrong(pairs):
        for pair, result in zip(pairs, right(pairs), strict=True):
            seen.append(pair)
            wrong = Pose.random(generator=torch.Generator().manual_seed(7), translation=10.0)
            yield replace(result, target_T_source=wrong) if len(seen) == 1 else result

    few = AlignSettings(retrieval=RetrievalSettings(candidates=2, min_score=0.1))
    alignment = align(lines_of(maps), register_pairs=first_is_wrong, settings=few)
    assert alignment.ok
    assert not alignment.edges[0].accepted


def test_further_pairs_are_between_groups_and_new():
    scores = torch.arange(16.0).reshape(4, 4)
    scores = scores + scores.mT
    pairs = further_pairs(scores, [[0, 1], [2], [3]], {(2, 3)}, RetrievalSettings(further=1))
    assert pairs == [(1, 3), (1, 2)]
    more = further_pairs(scores, [[0, 1, 2, 3]], {(2, 3)}, RetrievalSettings(contested=1), contested=[2])
    assert more == [(1, 2)]
    assert further_pairs(scores, [[0, 1, 2], [3]], set(), RetrievalSettings(min_score=100.0)) == []


@pytest.mark.parametrize("changes", [{"candidates": 0}, {"min_score": -1.0}, {"rounds": -1}])
def test_settings_check_their_values(changes):
    with pytest.raises(InputError):
        AlignSettings(retrieval=RetrievalSettings(**changes))


def test_maps_of_unknown_units_are_aligned():
    lines = house()
    motion = Similarity.from_pose(Pose.random(generator=torch.Generator().manual_seed(3), translation=4.0), 0.01)
    maps = {"metres": lines[torch.arange(80)].replaced(ids=None), "other": motion @ lines[torch.arange(10, 88)]}
    alignment = align(maps, matcher="descriptors", settings=AlignSettings(scale="unknown"))
    assert alignment.ok
    assert alignment.groups[0].maps[0] == "metres"
    assert torch.allclose(alignment.groups[0].poses["other"].matrix(), motion.inverse().matrix(), rtol=1e-4, atol=1e-2)
    assert len(merge_group(alignment, alignment.groups[0]).lines) == 88
