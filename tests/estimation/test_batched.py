"""Every batched stage gives each pair of maps what the stage of one pair gives it, whatever the padding."""

from functools import cache

import pytest
import torch
from tests.estimation.shapes_for_tests import cube, prism, window_grid

from plueckernet.data import AnyProtocol, ScanProtocol, make_scene, sample_pair
from plueckernet.estimation.batched.close_pairs import PosedMaps
from plueckernet.estimation.batched.distinct import distinct_poses as distinct_in_batches
from plueckernet.estimation.batched.gauss_newton import gauss_newton_steps, inverses
from plueckernet.estimation.batched.hypotheses import propose
from plueckernet.estimation.batched.lines import median, padded, quantile
from plueckernet.estimation.batched.look import BatchedSearch
from plueckernet.estimation.batched.matching import BatchedMatches
from plueckernet.estimation.batched.observability import least_firmness
from plueckernet.estimation.batched.preparation import BatchedMaps, prepare
from plueckernet.estimation.batched.refinement import refine_poses
from plueckernet.estimation.batched.residuals import Thresholds, pair_squares
from plueckernet.estimation.batched.scoring import BatchedRowScorer
from plueckernet.estimation.batched.symmetry import surviving_motions
from plueckernet.estimation.batched.verification import BatchedMapScorer
from plueckernet.estimation.distinct import distinct_poses
from plueckernet.estimation.gauss_newton import gauss_newton_step
from plueckernet.estimation.hypotheses import HypothesisSettings, propose_poses
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import match_log_probability, putative_matches
from plueckernet.estimation.observability import firmness
from plueckernet.estimation.refinement import RefinementSettings, refine_pose
from plueckernet.estimation.scoring import InlierThreshold, pair_residuals
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.symmetric_motions import SymmetrySettings
from plueckernet.estimation.symmetry import self_symmetries
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import stacked
from plueckernet.stages import StageClock

SETTINGS = RegistrationSettings()
KINDS = {"infinite": AnyProtocol(segments=False), "segments": ScanProtocol(overlap=0.6)}


@cache
def pairs(kind: str) -> tuple[tuple[LineSet, LineSet, Pose], ...]:
    """Two pairs of maps of different sizes, with their poses."""
    houses = [sample_pair(make_scene("indoor", seed), KINDS[kind], seed) for seed in (7, 9)]
    sizes = (90, 70), (110, 60)
    return tuple(
        (pair.source[:source], pair.target[:target], pair.target_T_source)
        for pair, (source, target) in zip(houses, sizes, strict=True)
    )


@cache
def maps(kind: str) -> tuple[BatchedMaps, list[MapPair]]:
    """The same pairs normalized, together and one by one."""
    chosen = [(source, target) for source, target, _ in pairs(kind)]
    return prepare(chosen, SETTINGS, "cpu").maps, [SETTINGS.normalize(*pair) for pair in chosen]


def poses_near(kind: str, count: int, size: float, seed: int = 0) -> list[Pose]:
    """For each pair of maps, poses near the true one, normalized."""
    generator = torch.Generator().manual_seed(seed)
    result = []
    for single, (_, _, pose) in zip(maps(kind)[1], pairs(kind), strict=True):
        xi = size * torch.randn(count, 6, generator=generator, dtype=torch.float64)
        result.append(Pose.exp(xi) @ single.normalized_pose(pose))
    return result


def batch(poses: list[Pose]) -> Pose:
    """Poses ``(b, h)``."""
    return Pose(torch.stack([pose.rotation for pose in poses]), torch.stack([pose.translation for pose in poses]))


def test_statistics_ignore_padding():
    generator = torch.Generator().manual_seed(0)
    values = [torch.rand(size, generator=generator, dtype=torch.float64) for size in (1, 4, 7)]
    rows, mask = padded(values, "cpu")
    torch.testing.assert_close(median(rows, mask), torch.stack([row.median() for row in values]))
    torch.testing.assert_close(quantile(rows, mask, 0.75), torch.stack([row.quantile(0.75) for row in values]))


@pytest.mark.parametrize("kind", KINDS)
def test_maps_are_normalized_alike(kind):
    together, single = maps(kind)
    for row, expected in enumerate(single):
        torch.testing.assert_close(float(together.unit[row]), expected.unit)
        torch.testing.assert_close(float(together.distance[row]), expected.threshold.distance)
        torch.testing.assert_close(together.source_offset[row], expected.source_offset)
        for side, lines in zip(together.sides, (expected.source, expected.target), strict=True):
            assert int(side.count[row]) == len(lines)
            torch.testing.assert_close(side.anchor[row][side.mask[row]], lines.anchor)
            torch.testing.assert_close(side.moment[row][side.mask[row]], lines.lines.moment)
            if lines.half_length is not None:
                torch.testing.assert_close(side.half_length[row][side.mask[row]], lines.half_length)


def test_what_a_batch_cannot_hold_is_told():
    source, target, _ = pairs("segments")[0]
    poles = LineSet.from_segments(target.endpoints * torch.tensor([1e-3, 1e-3, 1.0]).double())
    stray = LineSet.from_segments(torch.cat([target.endpoints, target.endpoints[:1] + 1e4]))
    broken = target.replaced(endpoints=target.endpoints.index_fill(0, torch.tensor([2]), torch.nan))
    larger = LineSet.from_segments(target.endpoints * 3.0)
    prepared = prepare([(source, other) for other in (target, poles, stray, broken, larger)], SETTINGS, "cpu")
    assert prepared.regular.tolist() == [True, False, False, False, True]
    assert prepared.same_unit.tolist()[0] is True
    assert prepared.same_unit.tolist()[4] is False


@pytest.mark.parametrize("kind", KINDS)
def test_residuals_of_all_pairs_of_lines(kind):
    together, single = maps(kind)
    poses = batch(poses_near(kind, 1, 0.05))
    slope = torch.tensor([0.02, 0.05], dtype=torch.float64)
    threshold = Thresholds(together.distance, torch.tensor([0.1, 0.2], dtype=torch.float64), slope)
    squares = pair_squares(Pose(poses.rotation[:, 0], poses.translation[:, 0]), *together.sides, threshold)
    for row, expected in enumerate(single):
        limit = InlierThreshold(expected.threshold.distance, (0.1, 0.2)[row], slope=float(slope[row]))
        pose = Pose(poses.rotation[row], poses.translation[row])
        residuals = pair_residuals(pose, expected.source, expected.target, limit)[0]
        torch.testing.assert_close(squares[row, : len(expected.source), : len(expected.target)], residuals)


def test_distinct_poses_are_the_greedy_choice():
    generator = torch.Generator().manual_seed(0)
    counts, distance, angle = (700, 40), (0.05, 0.02), 0.14
    chosen = [Pose.exp(0.1 * torch.randn(max(counts), 6, generator=generator, dtype=torch.float64)) for _ in counts]
    mask = torch.arange(max(counts)) < torch.tensor(counts)[:, None]
    rows, real = distinct_in_batches(batch(chosen), mask, torch.tensor(distance, dtype=torch.float64), angle, 300)
    for pair, count in enumerate(counts):
        scores = torch.arange(count, 0, -1).double()
        threshold = InlierThreshold(distance[pair], angle)
        expected = distinct_poses(chosen[pair][:count], scores, threshold, 300)
        assert rows[pair][real[pair]].tolist() == expected.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_hypotheses_are_those_of_one_pair(kind):
    together, single = maps(kind)
    own_matches = [putative_matches(match_log_probability(pair.source, pair.target), 60) for pair in single]
    source, target, probability = (
        torch.stack([getattr(matches, name) for matches in own_matches]) for name in ("source", "target", "probability")
    )
    matches = BatchedMatches(source, target, probability, torch.ones_like(source, dtype=torch.bool))
    hypotheses = propose(BatchedRowScorer(together, matches), HypothesisSettings(draws=200), seed=3)
    for row, (pair, own) in enumerate(zip(single, own_matches, strict=True)):
        scorer = pair.match_scorer(own.source, own.target)
        expected = next(propose_poses(pair, scorer, own.probability, HypothesisSettings(draws=200), seed=3))
        positive = expected.scores[expected.scores > 0].unique()  # each match is a partner of others: some come twice
        values = hypotheses.scores[row][hypotheses.mask[row]].unique()
        assert float(values.max()) == pytest.approx(
            float(positive.max()), rel=1e-3
        )  # single precision, in another order
        assert len(values) == pytest.approx(len(positive), rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_poses_are_scored_alike(kind):
    together, single = maps(kind)
    poses = poses_near(kind, 20, 0.05)
    scorer = BatchedMapScorer(together)
    explained, rough = scorer.explained(batch(poses)), scorer.rough_scores(batch(poses))
    scores = scorer.score(explained)
    stand_out, chance = scorer.stand_out(batch(poses), scores, torch.arange(20).expand_as(scores) % 3 == 0)
    assert not bool((stand_out[:, 1] + chance[:, 2]).any())
    for row, pair in enumerate(single):
        expected = MapScorer(pair.source, pair.target, pair.threshold)
        own = expected.explained(poses[row])
        for name in ("source", "target", "expected_source", "expected_target"):
            torch.testing.assert_close(getattr(explained, name)[row], getattr(own, name), atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(
            rough[row], expected._rough_scores(poses[row].to(torch.float32)), atol=1e-3, rtol=1e-3
        )
        told = [float(values[row, 3]) for values in (scores, stand_out, chance)]
        assert expected.stand_out(poses[row][3]) == pytest.approx(told, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_poses_are_refined_alike(kind):
    together, single = maps(kind)
    poses = stacked([pose[0] for pose in poses_near(kind, 1, 0.005)])
    threshold = Thresholds.of(together.distance, together.angle)
    refined = refine_poses(poses, PosedMaps(*together.sides), threshold, RefinementSettings())
    for row, pair in enumerate(single):
        expected = refine_pose(poses[row], pair.source, pair.target, pair.threshold)
        torch.testing.assert_close(refined.poses.rotation[row], expected.pose.rotation, atol=1e-8, rtol=0)
        torch.testing.assert_close(refined.poses.translation[row], expected.pose.translation, atol=1e-8, rtol=0)
        torch.testing.assert_close(refined.covariance[row], expected.covariance, atol=0, rtol=1e-5)
        inlier = refined.inlier[row]
        own = {(int(a), int(b)) for a, b in zip(*(rows[row][inlier] for rows in refined.rows), strict=True)}
        assert own == {(int(a), int(b)) for a, b in expected.matches}
        assert float(refined.noise.position[row]) == pytest.approx(expected.noise.position, rel=1e-6)
        assert bool(refined.converged[row]) == expected.converged
        assert bool(refined.determined[row])
        least = firmness(pair.target[expected.matches[:, 1]])[0]
        assert float(least_firmness(refined, together)[row]) == pytest.approx(float(least), rel=1e-6)


def test_a_pose_that_nothing_supports_is_told():
    together, single = maps("segments")
    away = [Pose(pose.rotation[0], pose.translation[0] + 50.0) for pose in poses_near("segments", 1, 0.0)]
    threshold = Thresholds.of(together.distance, together.angle)
    refined = refine_poses(stacked(away), PosedMaps(*together.sides), threshold, RefinementSettings())
    assert not refined.supported.any()
    assert refine_pose(away[0], single[0].source, single[0].target, single[0].threshold) is None


def test_steps_are_those_of_one_pose():
    generator = torch.Generator().manual_seed(0)
    value, jacobian, weight = (
        torch.randn(3, 9, *shape, generator=generator, dtype=torch.float64) for shape in ((4,), (4, 6), ())
    )
    weight = weight.abs()
    step = gauss_newton_steps(value, jacobian, weight)
    xi, information = gauss_newton_step(value, jacobian, weight)
    torch.testing.assert_close(step.xi, xi, atol=1e-8, rtol=1e-6)
    inverse, determined = inverses(information)
    assert determined.all()
    torch.testing.assert_close(inverse @ information, torch.eye(6).double().expand(3, 6, 6), atol=1e-8, rtol=0)


def test_an_undetermined_motion_is_told():
    jacobian = torch.randn(2, 9, 4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    jacobian[1, ..., 5] = 0  # no line resists a shift along z
    step = gauss_newton_steps(torch.ones(2, 9, 4).double(), jacobian, torch.ones(2, 9).double())
    assert step.determined.tolist() == [True, False]
    assert step.xi[1].tolist() == [0.0] * 6


@pytest.mark.parametrize("shape", [cube(), prism(6), window_grid(5, 3)], ids=["cube", "prism", "windows"])
def test_every_symmetry_is_among_the_motions_that_survive(shape):
    lines = LineSet.from_segments(shape)
    together = prepare([(lines, lines)], SETTINGS, "cpu").maps
    nothing = Pose(torch.zeros(1, 0, 3, 3), torch.zeros(1, 0, 3))
    motions = surviving_motions(
        together.source.single,
        together.distance,
        together.angle,
        SymmetrySettings(),
        nothing,
        torch.zeros(1, 0, dtype=torch.bool),
    )
    pair = SETTINGS.normalize(lines, lines)
    symmetries = self_symmetries(pair.source, pair.threshold)
    assert len(symmetries.rotation)
    assert motions.mask.any()


def test_a_search_without_matches_has_no_candidates():
    together, _ = maps("infinite")
    search = BatchedSearch(together, SETTINGS, StageClock())

    def match(source: LineSet, target: LineSet) -> torch.Tensor:
        shape = (len(source.direction), source.direction.shape[1], target.direction.shape[1])
        return torch.full(shape, -torch.inf)

    assert not search.look(match, (150, 200), 0).looked_at.mask.any()
