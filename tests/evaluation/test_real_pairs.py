"""Pairs by kind: equal for equal seeds, sized and labelled as they say, with every true pose known."""

from pathlib import Path

import pytest
import torch
from tests.evaluation.small import town

from plueckernet.data.scenes import make_scene
from plueckernet.errors import InputError
from plueckernet.evaluation.protocols import LabelledPair
from plueckernet.evaluation.real_maps import place_of, read_maps, read_roofs
from plueckernet.evaluation.real_pairs import PairKind, RealPairs
from plueckernet.evaluation.repetition import SHAPES, symmetric
from plueckernet.io import write_lines

NUMBER = 4  # pairs of each kind
CUT = (PairKind.NEIGHBOURS, PairKind.SPARSE, PairKind.PIECE, PairKind.TINY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stand-ins for real maps: scenes, and roofs of 16 lines."""
    root = tmp_path_factory.mktemp("maps")
    for name in ("town", "roofs"):
        (root / name).mkdir()
    for seed in (3, 4, 5):
        write_lines(root / "town" / f"{seed}.npz", town(seed))
        scene = make_scene("indoor", seed)
        write_lines(root / "roofs" / f"{seed}.npz", scene[scene.lengths().topk(16).indices].replaced(ids=None))
    return root


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[PairKind, list[LabelledPair]]:
    return {kind: [RealPairs(kind, (folder,)).labelled(i) for i in range(NUMBER)] for kind in PairKind}


@pytest.mark.parametrize("kind", list(PairKind))
def test_equal_seeds_give_equal_pairs(kind, folder, made):
    again = RealPairs(kind, (folder,)).labelled(NUMBER - 1)
    other = RealPairs(kind, (folder,), first_seed=7).labelled(NUMBER - 1)
    assert again.source.endpoints is not None
    assert torch.equal(again.source.endpoints, made[kind][-1].source.endpoints)
    assert torch.equal(again.target.endpoints, made[kind][-1].target.endpoints)
    assert (again.places, again.band) == (made[kind][-1].places, made[kind][-1].band)
    assert other.source.endpoints is not None
    assert again.source.endpoints.shape != other.source.endpoints.shape or not torch.equal(
        again.source.endpoints, other.source.endpoints
    )


@pytest.mark.parametrize("kind", CUT)
def test_upright_pairs_show_the_same_lines_turned_about_the_vertical(kind, folder, made):
    for index, pair in enumerate(made[kind]):
        upright = RealPairs(kind, (folder,), upright=True).labelled(index)
        vertical = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
        assert torch.allclose(upright.target_T_source.rotation @ vertical, vertical)
        back = pair.target_T_source @ upright.target_T_source.inverse()
        assert torch.allclose((back @ upright.target).midpoints(), pair.target.midpoints())
        assert torch.equal(upright.source.midpoints(), pair.source.midpoints())


def test_infinite_pairs_show_the_same_lines_without_their_ends(folder, made):
    for index, pair in enumerate(made[PairKind.NEIGHBOURS]):
        infinite = RealPairs(PairKind.NEIGHBOURS, (folder,), infinite=True)
        assert infinite.config() != RealPairs(PairKind.NEIGHBOURS, (folder,)).config()
        assert infinite.name.startswith("infinite-neighbours")
        shown = infinite.labelled(index)
        assert shown.source.endpoints is None
        assert shown.target.endpoints is None
        assert torch.equal(shown.source.direction, pair.source.direction)
        assert torch.equal(shown.target_T_source.matrix(), pair.target_T_source.matrix())


def test_repeated_maps_are_not_drawn_upright():
    with pytest.raises(InputError, match="repeat"):
        RealPairs(PairKind.SYMMETRIC, upright=True).labelled(0)


@pytest.mark.parametrize("kind", CUT)
def test_matched_lines_coincide_under_the_true_pose(kind, made):
    for pair in made[kind]:
        moved = pair.target_T_source @ pair.source[pair.matches[:, 0]]
        target = pair.target[pair.matches[:, 1]]
        apart = (target.midpoints() - moved.midpoints()).cross(moved.direction, dim=-1).norm(dim=-1)
        assert pair.related
        assert float(apart.median()) < 0.15


def test_one_map_is_much_denser(made):
    for kind in (PairKind.SPARSE, PairKind.PIECE):
        for pair in made[kind]:
            assert max(len(pair.source), len(pair.target)) >= 2 * min(len(pair.source), len(pair.target))


def test_tiny_maps_are_tiny(made):
    for pair in made[PairKind.TINY]:
        assert 6 <= min(len(pair.source), len(pair.target)) <= max(len(pair.source), len(pair.target)) <= 25
        assert 0.3 <= pair.common < 0.9


def test_unrelated_maps_show_two_places(made):
    for pair in made[PairKind.UNRELATED]:
        assert not pair.related
        assert len(set(pair.places)) == 2
        assert 8 <= min(len(pair.source), len(pair.target)) <= max(len(pair.source), len(pair.target)) <= 400
        assert not len(pair.matches)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_member_of_a_family_moves_the_piece_onto_the_place(shape, seed):
    place = SHAPES[shape](torch.Generator().manual_seed(seed))
    assert len(place.motions.rotation) >= 2
    middles, lengths = place.lines.mean(1), (place.lines[:, 1] - place.lines[:, 0]).norm(dim=-1)
    for i in range(len(place.motions.rotation)):
        moved = place.motions[i].act(place.lines[place.piece].flatten(0, 1)).unflatten(0, (-1, 2))
        distance = torch.cdist(moved.mean(1), middles)
        assert float(distance.amin(1).max()) < 1e-5
        nearest = distance < 1e-5
        same = (lengths[place.piece][:, None] - lengths).abs() < 1e-6
        assert bool((nearest & same).any(1).all())


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_member_is_the_truth(shape):
    pair = symmetric(shape, torch.Generator().manual_seed(5))
    assert pair.family is not None
    assert torch.allclose(pair.family[0].matrix(), pair.target_T_source.matrix())
    distinct = torch.cdist(pair.family.matrix().flatten(1), pair.family.matrix().flatten(1)) > 1e-6
    assert int(distinct.sum()) == len(distinct) * (len(distinct) - 1)
    if shape == "pole field":
        assert pair.free_direction is not None
        along = (pair.target.direction @ pair.free_direction).abs()
        assert float(along.min()) > 0.99


def test_places_of_maps():
    assert place_of("line3dpp/2016") == place_of("line3dpp/2017") == "line3dpp"
    assert place_of("fzk_house/fzk_lod2") == place_of("bim/AC20-FZK-Haus_edges")
    assert place_of("town/3") == "town/3"


def test_roofs_are_too_small_to_crop(folder):
    assert set(read_maps(folder)) == {"town/3", "town/4", "town/5"}
    assert set(read_roofs([folder])) == {"roofs/3", "roofs/4", "roofs/5"}


def test_the_config_tells_maps_apart(folder, tmp_path):
    first = RealPairs(PairKind.TINY, (folder,)).config()
    write_lines(tmp_path / "a.npz", make_scene("indoor", 0))
    assert first != RealPairs(PairKind.TINY, (tmp_path,)).config()
    with pytest.raises(InputError, match="two places"):
        RealPairs(PairKind.TINY, (tmp_path,)).labelled(0)
