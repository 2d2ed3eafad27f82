"""Protocols of experiments: the motion that was asked for, the share of wrong matches, the same pair for a seed."""

import math

import pytest
import torch

from plueckernet.data import AnyProtocol, Noise, PaperProtocol, make_scene
from plueckernet.errors import InputError
from plueckernet.evaluation.protocols import (
    Driving,
    Placed,
    Putative,
    Recorded,
    Unrelated,
    draw_pair,
    draw_unrelated,
    protocol_config,
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
    "protocol", [Placed(60.0, 30.0, PaperProtocol(angle=0.0, translation=0.0, noise=QUIET)), Driving(noise=QUIET)]
)
def test_without_noise_matched_lines_coincide_under_the_pose(protocol):
    pair = draw_pair(SCENE, protocol, 1)
    assert len(pair.matches) > 10
    moved = pair.target_T_source @ pair.source[pair.matches[:, 0]]
    assert torch.allclose(moved.pluecker(), pair.target[pair.matches[:, 1]].pluecker(), atol=1e-9)


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


def test_the_noise_of_random_parts_acts_about_the_middle_of_the_scene():
    pair = draw_pair(SCENE, AnyProtocol(), 2)
    assert torch.equal(pair.source_centre, SCENE.centre())
    assert torch.allclose(pair.target_centre, pair.target_T_source.act(SCENE.centre()[None])[0])
