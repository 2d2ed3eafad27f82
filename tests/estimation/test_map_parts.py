"""Parts cover a map and are compact; matched part by part, maps that share a corner have more right matches."""

import pytest
import torch

from plueckernet.data.scenes import make_scene
from plueckernet.estimation.map_parts import longest_matches, map_parts, matches_of_rows, part_matches
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose
from plueckernet.matchers import load_matcher

SETTINGS = RegistrationSettings()
MATCHER = load_matcher("descriptors")


def sharing_a_corner(seed: int) -> tuple[LineSet, LineSet, Pose]:
    """Three rooms each, of which one is in both maps."""
    step = torch.tensor([30.0, 0.0, 0.0], dtype=torch.float64)
    rooms = [make_scene("indoor", seed + number) for number in range(5)]
    ends = [(room.shifted(room.centre())).endpoints + number * step for number, room in enumerate(rooms)]
    pose = Pose.random(generator=torch.Generator().manual_seed(seed), translation=5.0)
    source, target = (LineSet.from_segments(torch.cat(kept)) for kept in (ends[:3], ends[2:]))
    return source, pose @ target, pose


def right(maps, matches, pose) -> int:
    scorer = RowScorer(maps.source[matches.source], maps.target[matches.target], maps.threshold)
    normalized = maps.normalized_pose(pose)
    return int((scorer.fit(Pose(normalized.rotation[None], normalized.translation[None]))[0] > 0).sum())


def test_parts_cover_the_map_and_are_compact():
    anchor = make_scene("outdoor", 3).endpoints.mean(1)
    parts = map_parts(anchor)
    assert len(parts) == 4
    assert torch.cat(parts).unique().tolist() == list(range(len(anchor)))
    sizes = [len(rows) for rows in parts]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) < 0.4 * len(anchor)
    spread = [float((anchor[rows] - anchor[rows].mean(0)).norm(dim=-1).mean()) for rows in parts]
    assert max(spread) < 0.9 * float((anchor - anchor.mean(0)).norm(dim=-1).mean())


@pytest.mark.parametrize(("lines", "parts"), [(12, 1), (19, 1), (22, 2), (60, 4)])
def test_small_maps_have_fewer_parts(lines, parts):
    anchor = torch.randn(lines, 3, generator=torch.Generator().manual_seed(0))
    assert len(map_parts(anchor)) == parts


def test_small_maps_are_not_matched_twice():
    generator = torch.Generator().manual_seed(1)
    source, target = (LineSet.from_segments(torch.randn(12, 2, 3, generator=generator).double()) for _ in range(2))
    assert list(part_matches(SETTINGS.normalize(source, target), pytest.fail)) == []


def test_a_shared_corner_has_more_right_matches_part_by_part():
    source, target, pose = sharing_a_corner(20)
    maps = SETTINGS.normalize(source, target)
    whole = MATCHER.putative_matches(maps, 200)
    pairs = list(part_matches(maps, lambda parts: MATCHER.putative_matches(parts, 800)))
    assert len(pairs) == 16
    assert all(len(matches) <= 200 for matches in pairs)
    assert max(right(maps, matches, pose) for matches in pairs) > 2 * right(maps, whole, pose)


def test_a_part_whose_lines_meet_in_one_point_is_left_out():
    generator = torch.Generator().manual_seed(4)
    spokes = torch.randn(30, 1, 3, generator=generator).double() * torch.tensor([-1.0, 1.0]).double()[:, None]
    others = torch.randn(30, 2, 3, generator=generator).double() + 20
    maps = SETTINGS.normalize(*[LineSet.from_segments(torch.cat([spokes, others]))] * 2)
    rows = torch.arange(30), torch.arange(30, 60)
    assert matches_of_rows(maps, rows, pytest.fail) is None
    assert matches_of_rows(maps, (rows[1], rows[1]), lambda chosen: MATCHER.putative_matches(chosen, 50)) is not None


def test_a_part_is_normalized_and_knows_where_it_was():
    scene = make_scene("indoor", 3)
    maps = SETTINGS.normalize(scene, scene.shifted([5.0, -3.0, 1.0]))
    rows = torch.arange(0, 60), torch.arange(20, 90)
    chosen, expected = maps.of_rows(*rows), [lines[row] for lines, row in zip(maps.original_lines, rows, strict=True)]
    for lines, own, original in zip(chosen.normalized_lines, chosen.original_lines, expected, strict=True):
        assert lines.centre().norm() < 1e-9
        assert torch.allclose(own.endpoints, original.endpoints)
    assert chosen.threshold.distance * chosen.unit == pytest.approx(maps.threshold.distance * maps.unit)


def test_infinite_lines_in_the_middle_are_matched_first():
    scene = make_scene("outdoor", 3).replaced(endpoints=None)
    pose = Pose.random(generator=torch.Generator().manual_seed(1), translation=5.0)
    maps, match = SETTINGS.normalize(scene, pose @ scene), MATCHER.matching(SETTINGS).match
    matches = longest_matches(maps, 100, match)
    assert matches is not None
    assert right(maps, matches, pose) > 20
    distance = maps.source.anchor.norm(dim=-1)
    assert float(distance[matches.source].max()) <= float(distance.sort().values[99])
    assert longest_matches(maps, len(scene), match) is None
    assert longest_matches(maps, len(scene), match, few=len(scene) - 1) is not None
