"""Pairs registered in batches have the results of one at a time, in their order, whatever else is in the batch."""

import json
from functools import cache

import pytest
import torch

from plueckernet.batching import BatchRegistration, BatchRun
from plueckernet.data import AnyProtocol, ScanProtocol, make_scene, sample_pair, unrelated_pair
from plueckernet.errors import BatchSizeWarning, InputError
from plueckernet.estimation.hull import VOLUME_EVIDENCE
from plueckernet.estimation.judgement import JudgementSettings
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet
from plueckernet.matchers import load_matcher
from plueckernet.registration import register, register_many
from plueckernet.result import RegistrationResult, Status

PROTOCOLS = {
    "parts": AnyProtocol(segments=False),
    "segments": AnyProtocol(segments=True),
    "surveys": ScanProtocol(overlap=0.6),
}
Maps = tuple[LineSet, LineSet]


@cache
def house(protocol: str, seed: int, most: int = 1000) -> Maps:
    """Two maps of a house of at most so many lines."""
    pair = sample_pair(make_scene("indoor", seed), PROTOCOLS[protocol], seed)
    return pair.source[:most], pair.target[:most]


@cache
def expected_result(protocol: str, seed: int, most: int = 1000) -> RegistrationResult:
    return register(*house(protocol, seed, most))


def assert_same(result: RegistrationResult, expected: RegistrationResult) -> None:
    assert result.status is expected.status, (result.reason, expected.reason)
    assert result.reason == expected.reason
    assert result.num_lines == expected.num_lines
    assert result.confidence == pytest.approx(expected.confidence, abs=1e-5)
    assert result.exchangeable == expected.exchangeable
    assert result.evidence.whole_lines == expected.evidence.whole_lines
    for name in VOLUME_EVIDENCE:
        assert getattr(result.evidence, name) == pytest.approx(getattr(expected.evidence, name), rel=1e-4, abs=1e-3)
    assert len(result.alternatives) == len(expected.alternatives)
    if expected.target_T_source is None:
        assert result.target_T_source is None
        return
    torch.testing.assert_close(result.target_T_source.matrix(), expected.target_T_source.matrix(), atol=1e-6, rtol=0)
    rows, expected_rows = (entry.inliers[:, 0].argsort() for entry in (result, expected))  # each line is in one match
    assert torch.equal(result.inliers[rows], expected.inliers[expected_rows])
    torch.testing.assert_close(result.residuals[rows], expected.residuals[expected_rows], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(result.covariance, expected.covariance, atol=1e-9, rtol=1e-4)
    torch.testing.assert_close(result.centre, expected.centre, atol=1e-6, rtol=0)
    assert result.noise == pytest.approx(expected.noise, rel=1e-4)
    assert result.settings["inlier_distance"] == pytest.approx(expected.settings["inlier_distance"])
    assert result.settings | {"inlier_distance": None} == expected.settings | {"inlier_distance": None}


def batches(batch_size: int, settings: RegistrationSettings = RegistrationSettings()) -> BatchRegistration:
    """Batches that count which pairs are registered by themselves."""
    run = BatchRun(load_matcher("invariant"), settings, 0, "cpu", lambda pair: register(*pair, settings=settings))
    return BatchRegistration(run, batch_size)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_batch_is_a_loop(protocol):
    pairs = [house(protocol, seed) for seed in (7, 8, 9)]
    together = batches(3)
    for seed, result in zip((7, 8, 9), together.results(pairs), strict=True):
        assert_same(result, expected_result(protocol, seed))
    assert together.num_single == 0


def test_small_maps_are_matched_as_a_whole():
    pairs = [house("parts", seed, 140) for seed in (7, 8)]
    together = batches(2)
    for seed, result in zip((7, 8), together.results(pairs), strict=True):
        assert_same(result, expected_result("parts", seed, 140))
    assert together.num_single < 2


@pytest.mark.parametrize("protocol", ["parts", "surveys"])
def test_pairs_that_are_not_clear_are_looked_at_again_with_all_lines(protocol):
    judgement = JudgementSettings(longest_clear_confidence=1.0, hiding_fraction=0.0)  # nothing is that clear
    settings, together = (
        RegistrationSettings(judgement=judgement),
        batches(2, RegistrationSettings(judgement=judgement)),
    )
    pairs = [house(protocol, seed, 180) for seed in (8, 10)]
    for pair, result in zip(pairs, together.results(pairs), strict=True):
        assert_same(result, register(*pair, settings=settings))
    assert together.num_single == 0


@pytest.mark.parametrize("protocol", ["parts", "surveys"])
def test_padding_changes_nothing(protocol):
    smaller = house(protocol, 7, 170)
    (by_itself,) = batches(1).results([smaller])
    padded, _ = batches(2).results([smaller, house(protocol, 9, 212)])
    assert_same(padded, by_itself)


def test_results_are_ordinary_tensors_of_their_own():
    pairs = [house("parts", seed) for seed in (7, 8)]
    first, second = register_many(pairs, batch_size=2)
    tensors = [first.target_T_source.rotation, first.covariance, first.inliers, first.residuals, first.matches]
    assert not any(tensor.is_inference() for tensor in tensors)
    assert first.target_T_source.rotation.untyped_storage().nbytes() == 9 * 8
    first.settings["refinement"]["iterations"] = 0
    assert second.settings["refinement"]["iterations"] > 0
    assert json.loads(json.dumps(first.to_dict(), allow_nan=False))["status"] == "success"
    assert set(first.timings) == {"prepare", "match", "estimate", "verify", "refine", "judge"}


def test_every_pair_has_its_result_in_its_place():
    source, target = house("parts", 7)
    broken = target.replaced(moment=target.moment * torch.nan)
    unrelated = unrelated_pair(make_scene("indoor", 3), make_scene("indoor", 4), PROTOCOLS["surveys"], 0)
    pairs = [
        (source[:0], target),
        (source, target),
        unrelated,
        house("surveys", 8),
        (source, broken),
        ("no such file.obj", target),
        (source, target.infinite()[:2]),
    ]
    seen: list[int] = []
    together = list(register_many(pairs, batch_size=4, on_progress=seen.append))
    for result, expected in zip(together, register_many(pairs), strict=True):
        assert_same(result, expected)
    assert [result.status is Status.SUCCESS for result in together] == [False, True, False, True, False, False, False]
    assert seen == list(range(1, len(pairs) + 1))


@pytest.mark.parametrize("factor", [1000.0, 3.281])
def test_maps_of_different_units_are_told(factor):
    source, target = house("surveys", 8)
    larger = LineSet.from_segments(target.endpoints * factor)
    together = batches(1)
    with pytest.warns(UserWarning, match="unit|metres|feet"):
        (result,) = together.results([(source, larger)])
    assert together.num_single == 1
    assert result.warnings


def test_strays_are_left_out():
    source, target = house("surveys", 8)
    stray = torch.cat([source.endpoints, source.endpoints[:1] + 1e5])
    together = batches(1)
    (result,) = together.results([(LineSet.from_segments(stray), target)])
    assert together.num_single == 1
    assert "left out" in result.warnings[0]


@pytest.mark.parametrize(
    "options",
    [
        {"up": (0, 0, 1)},
        {"scale": (0.9, 1.1)},
        {"matcher": "descriptors"},
        {"settings": RegistrationSettings(max_lines=100)},
    ],
    ids=str,
)
def test_what_has_no_batched_form_is_registered_one_by_one(options):
    pair = house("surveys", 8)
    (result,) = register_many([pair], batch_size=2, **options)
    expected = register(*pair, **options)
    assert result.status is expected.status
    assert result.confidence == expected.confidence
    assert result.reason == expected.reason


class LittleMemory(BatchRegistration):
    """Has memory for two pairs at once."""

    def _searched(self, maps, counts, clock):
        if len(counts) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super()._searched(maps, counts, clock)


def test_out_of_memory_halves_the_batch_and_says_so():
    run = BatchRun(load_matcher("invariant"), RegistrationSettings(), 0, "cpu", lambda pair: register(*pair))
    together = LittleMemory(run, 5)
    pairs = [house("parts", seed) for seed in (7, 7, 7)]
    with pytest.warns(BatchSizeWarning, match="with 3 pairs of maps at once: from now on 1"):
        results = list(together.results(pairs))
    assert together.batch_size == 1
    for seed, result in zip((7, 7, 7), results, strict=True):
        assert_same(result, expected_result("parts", seed))


class NoMemory(BatchRegistration):
    """Has memory for no batch at all."""

    def _searched(self, maps, counts, clock):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_pair_too_large_for_a_batch_is_registered_by_itself():
    run = BatchRun(load_matcher("invariant"), RegistrationSettings(), 0, "cpu", lambda pair: register(*pair))
    together = NoMemory(run, 1)
    (result,) = together.results([house("parts", 7)])
    assert_same(result, expected_result("parts", 7))
    assert together.num_single == 1


def test_bad_arguments_are_told():
    with pytest.raises(InputError, match="batch_size: expected a number of at least 1, got 0"):
        list(register_many([], batch_size=0))
    with pytest.raises(InputError, match="one process"):
        list(register_many([], batch_size=2, processes=2))
    assert list(register_many([], batch_size=2)) == []
