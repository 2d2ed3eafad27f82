"""Pairs: pose and matches are right, noise is as large as specified, and the settings have their effect."""

import math

import pytest
import torch

from plueckernet.data import (
    AnyProtocol,
    LinePair,
    Noise,
    PairProtocol,
    PaperProtocol,
    ScanProtocol,
    Survey,
    make_scene,
    sample_pair,
    unrelated_pair,
)
from plueckernet.data.protocols import with_noise
from plueckernet.errors import InputError
from plueckernet.geometry import LineSet

SILENT = Noise(position=0.0, direction=0.0)
FAITHFUL = Survey(missing=0.0, spurious=0.0, endpoint=0.0, position=0.0, direction=0.0)
NOISE_FREE: list[PairProtocol] = [
    PaperProtocol(noise=SILENT),
    PaperProtocol(noise=SILENT, directed=False),
    AnyProtocol(noise=SILENT),
    AnyProtocol(noise=SILENT, segments=True),
    ScanProtocol(survey=FAITHFUL),
]
ALL: list[PairProtocol] = [
    PaperProtocol(),
    PaperProtocol(directed=False),
    AnyProtocol(keep=0.4),
    AnyProtocol(segments=True),
    ScanProtocol(overlap=0.4),
]


def matched(pair: LinePair):
    """Source lines in the target's frame, the target lines they match, and the cosines between them."""
    source = (pair.target_T_source @ pair.source)[pair.matches[:, 0]]
    target = pair.target[pair.matches[:, 1]]
    return source, target, (source.direction * target.direction).sum(-1)


def flips(kind: str, protocol: PairProtocol, pairs: int = 8) -> float:
    cosines = [matched(sample_pair(make_scene(kind, seed), protocol, seed))[2] for seed in range(pairs)]
    return sum(float((cosine < 0).double().mean()) for cosine in cosines) / pairs


@pytest.mark.parametrize("protocol", NOISE_FREE, ids=str)
@pytest.mark.parametrize("kind", ["indoor", "outdoor"])
def test_without_noise_matches_coincide(kind, protocol):
    pair = sample_pair(make_scene(kind, 1), protocol, 1)
    source, target, cosine = matched(pair)
    assert len(pair.matches) > 5
    torch.testing.assert_close(source.moment * cosine.sign()[:, None], target.moment, atol=1e-9, rtol=0)
    torch.testing.assert_close(cosine.abs(), torch.ones_like(cosine), atol=1e-12, rtol=0)


@pytest.mark.parametrize("protocol", ALL, ids=str)
def test_the_seed_is_the_pair(protocol):
    scene = make_scene("indoor", 2)
    first, again, other = (sample_pair(scene, protocol, seed) for seed in (4, 4, 5))
    assert torch.equal(first.source.moment, again.source.moment)
    assert torch.equal(first.target.moment, again.target.moment)
    assert torch.equal(first.matches, again.matches)
    assert not torch.equal(first.target_T_source.rotation, other.target_T_source.rotation)
    generator = torch.Generator().manual_seed(4)
    assert torch.equal(first.target.moment, sample_pair(scene, protocol, generator).target.moment)


@pytest.mark.parametrize("protocol", ALL, ids=str)
def test_matches_name_rows_once_and_rows_are_shuffled(protocol):
    pair = sample_pair(make_scene("indoor", 2), protocol, 0)
    assert len(pair.matches.unique(dim=0)) == len(pair.matches)
    assert bool((pair.matches.amax(0) < torch.tensor([len(pair.source), len(pair.target)])).all())
    assert bool((pair.matches[:, 0].diff() >= 0).all())
    assert not bool((pair.matches[:, 1].diff() >= 0).all())
    assert pair.source.ids is None
    assert pair.target.ids is None


@pytest.mark.parametrize("keep", [0.3, 0.7, 1.0])
def test_keep_is_kept_on_each_side(keep):
    scene = make_scene("indoor", 2)
    pair = sample_pair(scene, AnyProtocol(keep=keep), 0)
    assert len(pair.source) == len(pair.target) == round(keep * len(scene))
    assert pair.common == pytest.approx(keep, abs=0.08)


def test_the_papers_motion():
    scene = make_scene("indoor", 0)
    poses = [sample_pair(scene, PaperProtocol(), seed).target_T_source for seed in range(40)]
    rotation = torch.stack([pose.rotation for pose in poses])
    about_y = -rotation[:, 2, 0].asin()  # of R = Rz Ry Rx
    about_x, about_z = (
        torch.atan2(rotation[:, 2, 1], rotation[:, 2, 2]),
        torch.atan2(rotation[:, 1, 0], rotation[:, 0, 0]),
    )
    for angle in (about_x, about_y, about_z):
        assert float(angle.min()) >= 0
        assert float(angle.max()) <= math.radians(45)
        assert float(angle.max() - angle.min()) > math.radians(30)
    shift = torch.stack([pose.translation for pose in poses])
    assert 1.5 < float(shift.abs().max()) <= 2


def test_directed_carries_directions_over():
    assert flips("indoor", PaperProtocol(noise=SILENT)) == 0


@pytest.mark.parametrize("kind", ["indoor", "outdoor"])
def test_the_hemisphere_rule_flips_a_fifth_to_a_third(kind):
    assert 0.15 < flips(kind, PaperProtocol(noise=SILENT, directed=False)) < 0.4


@pytest.mark.parametrize("protocol", [AnyProtocol(), ScanProtocol()], ids=str)
def test_undirected_lines_have_random_signs(protocol):
    assert 0.4 < flips("indoor", protocol) < 0.6


def test_noise_is_as_large_as_said_and_clipped():
    lines = make_scene("floor", 1).infinite()
    noise = Noise(position=0.1, position_limit=0.15, direction=3.0, direction_limit=5.0)
    moved = with_noise(lines, noise, None, torch.Generator().manual_seed(0))
    tilt = (lines.direction * moved.direction).sum(-1).clamp(max=1).acos().rad2deg()
    assert float(tilt.max()) <= 5.0
    # An axis at random takes a third of the turn as spin about the line itself.
    silent = with_noise(lines, Noise(0.0, 1.0, 1.0, 90.0), None, torch.Generator().manual_seed(0))
    tilt = torch.linalg.cross(lines.direction, silent.direction).norm(dim=-1).asin().rad2deg()
    assert float(tilt.square().mean().sqrt()) == pytest.approx(math.sqrt(2 / 3), rel=0.1)
    shifted = with_noise(lines, Noise(0.1, 0.15, 0.0, 0.0), None, torch.Generator().manual_seed(0))
    offset = shifted.footpoints() - lines.footpoints()
    assert float(offset.norm(dim=-1).max()) <= 0.15 * math.sqrt(3)
    assert 0.05 < float(offset.std()) < 0.1


def test_noise_about_each_axis_is_larger_by_the_root_of_three():
    lines = make_scene("block", 6)
    spreads = []
    for turn in ("random-axis", "each-axis"):
        noise = Noise(0.0, None, 2.0, None, turn)
        moved = with_noise(lines, noise, None, torch.Generator().manual_seed(0))
        sine = torch.linalg.cross(lines.direction, moved.direction).norm(dim=-1)
        spreads.append(float(sine.square().mean().sqrt().asin().rad2deg()))
    # Two of three components of a turn act: of one about a random axis, each has a third of the variance.
    assert spreads[0] == pytest.approx(2.0 * (2 / 3) ** 0.5, rel=0.08)
    assert spreads[1] == pytest.approx(2.0 * 2**0.5, rel=0.08)


@pytest.mark.parametrize("turn", ["random-axis", "each-axis"])
def test_angles_are_clipped_unless_there_is_no_limit(turn):
    lines = make_scene("block", 6)
    angles = []
    for limit in (1.0, None):
        noise = Noise(0.0, 0.0, 20.0, limit, turn)
        moved = with_noise(lines, noise, None, torch.Generator().manual_seed(0))
        angles.append(float((lines.direction * moved.direction).sum(-1).min().clamp(-1, 1).acos().rad2deg()))
    assert angles[0] <= 1.0 * (1.01 * 3**0.5 if turn == "each-axis" else 1.0) + 1e-6
    assert angles[1] > 30


def test_noise_at_the_scenes_centre_does_not_know_the_frame():
    scene, noise = make_scene("indoor", 3), Noise()
    distant = scene.shifted(torch.tensor([1e3, -2e3, 5e2], dtype=torch.float64))
    moved, distant_moved = (
        with_noise(lines, noise, lines.centre(), torch.Generator().manual_seed(0)) for lines in (scene, distant)
    )
    torch.testing.assert_close(moved.lengths(), scene.lengths())
    offset = scene.centre() - distant.centre()
    torch.testing.assert_close(distant_moved.endpoints + offset, moved.endpoints, atol=1e-6, rtol=0)


def test_segments_stay_on_their_lines():
    pair = sample_pair(make_scene("indoor", 3), AnyProtocol(segments=True), 0)
    for lines in (pair.source, pair.target):
        moment = torch.linalg.cross(lines.endpoints, lines.direction[:, None].expand_as(lines.endpoints))
        torch.testing.assert_close(moment, lines.moment[:, None].expand_as(moment), atol=1e-9, rtol=0)


@pytest.mark.parametrize("kind", ["indoor", "outdoor", "block"])
@pytest.mark.parametrize("overlap", [0.2, 0.5, 0.65])
def test_overlap_is_the_fraction_in_common(kind, overlap):
    for seed in range(4):
        scene = make_scene(kind, seed)
        pair = sample_pair(scene, ScanProtocol(overlap=overlap), seed)
        assert pair.common == pytest.approx(overlap, abs=max(0.03, 3 / len(scene)))


def test_full_overlap_of_faithful_surveys_is_everything():
    pair = sample_pair(make_scene("indoor", 1), ScanProtocol(overlap=1.0, survey=FAITHFUL), 0)
    assert pair.common > 0.97  # slivers aside


def test_scans_cover_neighbouring_parts():
    for seed in range(5):
        pair = sample_pair(make_scene("indoor", seed), ScanProtocol(overlap=0.2), seed)
        here = (pair.target_T_source @ pair.source).midpoints().mean(0)
        assert float((here - pair.target.midpoints().mean(0)).norm()) > 2.0


def test_every_pair_of_overlapping_fragments_is_a_match():
    survey = Survey(missing=0.0, spurious=0.0, piece=1.0, endpoint=0.0, position=0.0, direction=0.0)
    ends = torch.rand(80, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pair = sample_pair(LineSet.from_segments(10 * ends), ScanProtocol(overlap=0.5, survey=survey), 0)
    source, target = pair.target_T_source @ pair.source, pair.target
    for side in (0, 1):
        assert int(pair.matches[:, side].bincount().max()) > 1  # many to many
    angle = torch.linalg.cross(source.direction[:, None], target.direction[None]).norm(dim=-1)
    gap = target.endpoints[None] - source.midpoints()[:, None, None]  # (m, n, 2, 3)
    along = (gap * source.direction[:, None, None]).sum(-1)
    off = (gap - along[..., None] * source.direction[:, None, None]).norm(dim=-1).amax(-1)
    half = source.lengths()[:, None] / 2
    overlap = torch.minimum(along.amax(-1), half) - torch.maximum(along.amin(-1), -half)
    seen = (angle < 1e-9) & (off < 1e-9) & (overlap > 0.05)
    matched = torch.zeros_like(seen)
    matched[pair.matches[:, 0], pair.matches[:, 1]] = True
    assert torch.equal(matched, seen)


def test_scan_noise_is_small_where_matched():
    pair = sample_pair(make_scene("indoor", 1), ScanProtocol(), 0)
    source, target, cosine = matched(pair)
    assert float(cosine.abs().clamp(max=1).acos().rad2deg().median()) < 2
    gap = torch.linalg.cross(target.midpoints() - source.midpoints(), target.direction).norm(dim=-1)
    assert float(gap.median()) < 0.12


def test_unrelated_pairs_come_from_two_scenes():
    first, second = make_scene("indoor", 1), make_scene("outdoor", 1)
    source, target = unrelated_pair(first, second, AnyProtocol(keep=1.0), 0)
    assert (len(source), len(target)) == (len(first), len(second))


def test_bad_settings_are_refused():
    scene = make_scene("indoor", 1)
    with pytest.raises(InputError, match=r"between 0 and 1, not 1\.5"):
        sample_pair(scene, ScanProtocol(overlap=1.5), 0)
    with pytest.raises(InputError, match="segments"):
        sample_pair(scene.infinite(), ScanProtocol(), 0)
