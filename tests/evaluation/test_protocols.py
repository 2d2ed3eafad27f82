"""Protocols of experiments: the motion that was asked for, the share of wrong matches, the same pair for a seed."""

import math

import pytest
import torch

from plueckernet.data import AnyProtocol, Noise, PaperProtocol, make_scene, sample_pair
from plueckernet.errors import InputError
from plueckernet.evaluation.protocols import (
    Driving,
    Placed,
    Putative,
    Recorded,
    Unrelated,
    draw_pair,
    draw_unrelated,
    from_recorded,
    protocol_config,
    recordable,
    slug,
)

QUIET = Noise(0.0, 0.0, 0.0, 0.0)
SCENE = make_scene("outdoor", 3)
PROTOCOLS = [PaperProtocol(), Placed(angle=90.0, distance=7.0), Putative(), Driving()]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=slug)
def test_a_seed_is_a_pair(protocol):
    pair, again, other = (draw_pair(SCENE, protocol, seed) for seed in (5, 5, 6))
    assert torch.equal(pair.source.moment, again.source.moment)
    assert torch.equal(pair.target.moment, again.target.moment)
    assert not torch.equal(pair.target_T_source.matrix(), other.target_T_source.matrix())


@pytest.mark.parametrize(
    "protocol",
    [Placed(60.0, 30.0, PaperProtocol(angle=0.0, translation=0.0, noise=QUIET)), Driving(noise=QUIET, seen=0.5)],
)
def test_without_noise_matched_lines_coincide_under_the_pose(protocol):
    pair = draw_pair(SCENE, protocol, 1)
    assert len(pair.matches) > 10
    moved, target = pair.target_T_source @ pair.source[pair.matches[:, 0]], pair.target[pair.matches[:, 1]]
    against = (moved.direction * target.direction).sum(-1) < 0
    assert torch.allclose(moved.flipped(against).pluecker(), target.pluecker(), atol=1e-9)
    assert bool(against.any()) == isinstance(protocol, Driving)  # whose views each follow the hemisphere rule


def test_a_view_from_the_vehicle_has_as_many_lines_as_in_the_paper():
    pairs = [draw_pair(make_scene("street", seed), Driving(), seed) for seed in range(5)]
    counts = sorted(len(side) for pair in pairs for side in (pair.source, pair.target))
    assert counts[0] > 1000
    assert 1500 < counts[5] < 2600  # the paper's median is 1,975
    assert all(bool((side.direction[:, 0] >= 0).all()) for pair in pairs for side in (pair.source, pair.target))


def test_recorded_pairs_are_never_given_noise():
    pair = sample_pair(SCENE, PaperProtocol(), 3)
    assert from_recorded(pair, Recorded(), 0) is pair
    assert from_recorded(pair, PaperProtocol(), 0) is pair
    thin = from_recorded(pair, PaperProtocol(keep=0.35), 0)
    assert len(thin.source) == round(len(pair.source) / 2)
    rows = {tuple(row) for row in pair.source.moment.tolist()}
    assert all(tuple(row) in rows for row in thin.source.moment.tolist())
    assert len(thin.matches) == pytest.approx(len(pair.matches) / 4, abs=8)
    undirected = from_recorded(pair, PaperProtocol(directed=False), 0)
    assert bool((undirected.target.direction[:, 0] >= 0).all())
    wrong = from_recorded(pair, Putative(wrong=0.5), 0)
    assert 0.3 < sum(row in pair.matches.tolist() for row in wrong.putative.tolist()) / len(wrong.putative) < 0.7
    for other in (PaperProtocol(noise=QUIET), PaperProtocol(keep=1.0), AnyProtocol(), Placed(), Driving()):
        assert not recordable(other)
        with pytest.raises(InputError, match="used as recorded"):
            from_recorded(pair, other, 0)


def test_placed_moves_by_what_it_says():
    pose = draw_pair(SCENE, Placed(angle=135.0, distance=1000.0), 2).target_T_source
    trace = float(pose.rotation.trace())
    assert math.degrees(math.acos((trace - 1) / 2)) == pytest.approx(135.0)
    assert float(pose.translation.norm()) == pytest.approx(1000.0)


def test_putative_matches_are_wrong_as_often_as_asked():
    pair = draw_pair(make_scene("indoor", 4), Putative(wrong=0.8), 1)
    true = {tuple(row) for row in pair.matches.tolist()}
    wrong = sum(tuple(row) not in true for row in pair.putative.tolist())
    assert 0.77 < wrong / len(pair.putative) <= 0.8  # some of the wrong ones are right by chance


def test_a_vehicle_moves_a_little_and_sees_what_is_near():
    protocol = Driving(step=2.0, turn=6.0, radius=8.0)
    pair = draw_pair(SCENE, protocol, 3)
    assert float(pair.target_T_source.translation.norm()) < 2.1
    assert float(pair.target_T_source.log()[:3].norm().rad2deg()) < 6 * math.sqrt(1 + 2 / 9)
    assert float(pair.source.footpoints().norm(dim=-1).max()) < 8.0 + 1.0


def test_names_tell_protocols_apart():
    protocols = [*PROTOCOLS, Placed(90.0), Placed(91.0), PaperProtocol(noise=Noise(0.1)), PaperProtocol(directed=False)]
    protocols.append(Placed(90.0, base=PaperProtocol(noise=Noise(0.1))))
    assert len({slug(protocol) for protocol in protocols}) == len(protocols)
    assert protocol_config(Placed(90.0))["protocol"] == "Placed"


@pytest.mark.parametrize("protocol", [Recorded(), Unrelated()])
def test_pairs_of_other_origin_are_not_drawn(protocol):
    with pytest.raises(InputError, match="not drawn from one scene"):
        draw_pair(SCENE, protocol, 0)


def test_unrelated_maps_have_no_match():
    pair = draw_unrelated(SCENE, make_scene("outdoor", 4), 5)
    assert len(pair.matches) == 0
    assert min(len(pair.source), len(pair.target)) > 0
    assert draw_unrelated(SCENE, make_scene("outdoor", 4), 6).source.endpoints is not None
    assert draw_unrelated(SCENE, make_scene("outdoor", 4), 6, infinite=True).source.endpoints is None


def test_the_noise_of_random_parts_acts_about_the_middle_of_the_scene():
    pair = draw_pair(SCENE, AnyProtocol(), 2)
    assert torch.equal(pair.source_centre, SCENE.centre())
    assert torch.allclose(pair.target_centre, pair.target_T_source.act(SCENE.centre()[None])[0])
