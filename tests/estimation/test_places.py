"""A small map is looked for in every place of a large one, and maps of like extents are left alone."""

import pytest
import torch

from plueckernet.data.scenes import make_scene
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.places import BEST_PLACES, place_pairs, probable_places
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose
from plueckernet.matchers import load_matcher

SETTINGS = RegistrationSettings(max_lines=60)
ROOMS = 6
SPACING = 25.0  # m


def room(seed: int) -> LineSet:
    scene = make_scene("indoor", seed)
    return scene.shifted(scene.centre())


def row_of_rooms() -> LineSet:
    shift = torch.tensor([SPACING, 0.0, 0.0], dtype=torch.float64)
    return LineSet.from_segments(torch.cat([room(seed).endpoints + seed * shift for seed in range(ROOMS)]))


def places(maps: MapPair) -> list[MapPair]:
    return [SETTINGS.normalize(*pair) for pair in place_pairs(maps)]


@pytest.mark.parametrize("swapped", [False, True])
def test_the_small_map_is_inside_one_of_the_places(swapped):
    pose = Pose.random(generator=torch.Generator().manual_seed(0), translation=5.0)
    small, large = room(3), pose @ row_of_rooms()
    pairs = places(SETTINGS.normalize(large, small) if swapped else SETTINGS.normalize(small, large))
    assert 3 <= len(pairs) <= 200
    whole = [pair.all_source if swapped else pair.all_target for pair in pairs]
    assert max(map(len, whole)) < 3 * len(small) < len(large)
    assert any(len(place) >= len(small) for place in whole)


def test_the_place_of_the_small_map_is_the_most_probable():
    matcher = load_matcher("invariant")
    small, large = room(3), row_of_rooms()
    maps = SETTINGS.normalize(small, large)
    best = probable_places(maps, SETTINGS.normalize, lambda pair: matcher.putative_matches(pair, 200))
    assert len(best) <= BEST_PLACES
    inside = (best[0][1].endpoints.mean(1)[:, 0] - 3 * SPACING).abs() < SPACING / 2
    assert int(inside.sum()) > 0.8 * len(small)


def test_maps_of_like_extents_have_no_places():
    maps = SETTINGS.normalize(room(1), room(2))
    assert maps.has_lines_outside_core
    assert places(maps) == []


def test_maps_without_further_lines_have_no_places():
    wide = RegistrationSettings(max_lines=5000)
    assert places(wide.normalize(room(1), row_of_rooms())) == []
