"""Scenes depend on their seed only, and have the line counts and the shapes of the paper's datasets."""

import numpy as np
import pytest
import torch
from benchmarks.harness import RESULTS

from plueckernet.data import SCENES, HouseStyle, TownStyle, indoor_scene, make_scene, outdoor_scene
from plueckernet.data.primitives import box_edges, clipped, fragmented, polygon, prism, upright_boxes
from plueckernet.errors import InputError
from plueckernet.evaluation.documents import read_result
from plueckernet.evaluation.experiments.scenes import SceneValues
from plueckernet.evaluation.paper import LINES


def counts(kind: str, scenes: int) -> np.ndarray:
    return np.array([len(make_scene(kind, seed)) for seed in range(scenes)])


@pytest.mark.parametrize("kind", SCENES)
def test_the_seed_is_the_scene(kind):
    first, again, other = make_scene(kind, 5), make_scene(kind, 5), make_scene(kind, 6)
    assert torch.equal(first.endpoints, again.endpoints)
    assert first.endpoints.shape != other.endpoints.shape or not torch.equal(first.endpoints, other.endpoints)


def test_the_seed_alone_is_the_scene():
    before = make_scene("varied", 3)
    torch.manual_seed(1)
    for seed in range(3):
        make_scene("varied", seed)
    assert torch.equal(before.endpoints, make_scene("varied", 3).endpoints)


@pytest.mark.parametrize("kind", SCENES)
def test_scenes_are_finite_segments(kind):
    for seed in range(6):
        lines = make_scene(kind, seed)
        assert lines.direction.dtype == torch.float64
        assert len(lines) >= 20
        assert bool(torch.isfinite(lines.endpoints).all())
        assert float(lines.lengths().min()) > 0.02


def test_houses_have_as_many_lines_as_structured3d():
    count = counts("indoor", 50)
    assert count.mean() == pytest.approx(306, rel=0.12)
    assert np.median(count) == pytest.approx(312, rel=0.15)


def test_cells_have_as_many_lines_as_semantic3d():
    count = counts("outdoor", 100)
    assert count.min() >= 20
    assert 1.5 * np.median(count) < count.mean()  # few large cells carry the mean
    assert np.median(count) == pytest.approx(118, rel=0.35)


def test_scenes_are_as_hard_as_the_papers():
    """After a change of the generators: plueckernet reproduce scenes."""
    values = read_result(RESULTS / "experiments" / "scenes.json", "scenes", SceneValues).values
    for kind, cell in values.cells.items():
        assert cell.ratios(kind) == pytest.approx([1] * 6, abs=0.3)
        assert cell.lines_mean == pytest.approx(LINES[kind]["mean"], rel=0.1)
        assert cell.lines_median == pytest.approx(LINES[kind]["median"], rel=0.1)


def test_houses_are_as_large_as_structured3d():
    extent = torch.stack(
        [lines.amax(0) - lines.amin(0) for lines in (indoor_scene(s).endpoints.flatten(0, 1) for s in range(25))]
    ).mean(0)
    assert extent.tolist() == pytest.approx([11, 10.5, 3], rel=0.15)


def test_cells_end_at_their_borders():
    style = TownStyle(size=16.0, origin=0.0)
    for seed in range(10):
        plan = outdoor_scene(seed, style).endpoints[..., :2]
        assert float(plan.abs().max()) < 8.0 + 6 * style.jitter


def test_houses_are_mostly_but_not_only_manhattan():
    along = [indoor_scene(seed).direction.abs().amax(-1) > np.cos(np.radians(2)) for seed in range(25)]
    fraction = np.array([float(aligned.double().mean()) for aligned in along])
    assert 0.7 < fraction.mean() < 0.95
    assert HouseStyle().bent > 0
    plain = HouseStyle(chamfered=0.0, sloped=0.0, bent=0.0, oblique=0.0)
    upright = indoor_scene(1, plain).direction.abs().amax(-1)
    assert float((upright > 0.999).double().mean()) > 0.8  # round tables are left


def test_a_style_scales_the_scene():
    assert len(make_scene("floor", 1)) > len(make_scene("indoor", 1)) > len(make_scene("room", 1))
    assert float(np.ptp(make_scene("block", 1).endpoints[..., 0].numpy())) > 30


def test_mixed_draws_both_kinds():
    drawn = {len(make_scene("mixed", s)) == len(make_scene("indoor", s)) for s in range(20)}
    assert drawn == {True, False}


def test_unknown_kind_is_refused_by_name():
    with pytest.raises(InputError, match="'castle'; there are indoor, outdoor"):
        make_scene("castle", 0)


def test_a_box_has_twelve_edges():
    size = np.array([[1.0, 2.0, 3.0]])
    box = upright_boxes(np.zeros((1, 3)), size, yaw=0.7)
    lengths = np.sort(np.linalg.norm(box[:, 1] - box[:, 0], axis=1))
    np.testing.assert_allclose(lengths, np.repeat([1.0, 2.0, 3.0], 4))
    corner, (u, v, w) = np.zeros((1, 3)), np.eye(3)[:, None]
    assert len(np.unique(box_edges(corner, u, v, w).reshape(-1, 3), axis=0)) == 8


def test_a_prism_has_three_edges_per_corner():
    assert len(prism(polygon(7, 1.0), 0.0, 2.0)) == 21


def test_clipping_keeps_the_inside():
    low, high = np.full(3, -1.0), np.full(3, 1.0)
    segments = np.array([[[-5.0, 0, 0], [5, 0, 0]], [[0, 0, 0], [0.5, 0.5, 0]], [[2, 2, 0], [3, 2, 0]]])
    expected = [[[-1.0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0.5, 0.5, 0]]]
    np.testing.assert_allclose(clipped(segments, low, high), expected, atol=1e-12)
    assert clipped(segments[:0], low, high).shape == (0, 2, 3)


def test_fragments_lie_on_their_line_without_overlap():
    whole = np.array([[[0.0, 0, 0], [20, 0, 0]]])
    pieces = fragmented(whole, np.random.default_rng(0), piece=2.0, gap=0.2)[..., 0]
    assert len(pieces) > 3
    assert (pieces[:, 0] < pieces[:, 1]).all()
    assert (pieces[1:, 0] >= pieces[:-1, 1]).all()
    assert pieces.min() >= 0
    assert pieces.max() <= 20
