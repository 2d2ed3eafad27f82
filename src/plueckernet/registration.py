"""Register two line maps: :func:`register` is the method on one page."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context

import torch

from plueckernet.errors import InputError, UnitWarning
from plueckernet.estimation.candidates import select_candidates
from plueckernet.estimation.evidence import gather_evidence
from plueckernet.estimation.extents import unit_warning
from plueckernet.estimation.judgement import judge
from plueckernet.estimation.ransac import ransac_pose
from plueckernet.estimation.refinement import refine_candidates
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.matchers import MatcherSource, load_matcher
from plueckernet.result import RegistrationResult, RunRecord, assemble_result

STAGES = ("prepare", "match", "estimate", "verify", "refine", "judge")


def register(
    source: LineSet,
    target: LineSet,
    *,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
    device: str = "cpu",
    on_stage: Callable[[str], None] | None = None,
) -> RegistrationResult:
    """Find ``target_T_source``: any rotation, any translation, no initial guess, lines undirected.

    The maps may be in any unit, as long as it is the same, and anywhere in space. The same input and seed give the
    same result. ``matcher`` proposes matches: the name or file of weights, "descriptors", which needs no weights, a
    network, or any :class:`~plueckernet.matchers.LineMatcher`. ``on_stage`` is called with the name of each stage as
    it begins. The result is on the CPU whatever the device. Maps that seem to be in different units are registered
    with a :class:`~plueckernet.errors.UnitWarning`, which is also in ``result.warnings``.
    """
    stage = StageClock(on_stage)
    with stage("prepare"):
        line_matcher = load_matcher(matcher, device)
        maps = settings.normalize(source.to(device), target.to(device))
        unit_warnings = _warn_about_units(source, target)
    with stage("match"):
        matches = line_matcher.putative_matches(maps, settings.max_matches)
    with torch.inference_mode():  # nothing below is differentiated, and operations are many and small
        with stage("estimate"):
            match_scorer = RowScorer(maps.source[matches.source], maps.target[matches.target], maps.threshold)
            hypotheses = ransac_pose(match_scorer, matches.probability, settings.ransac, seed)
        with stage("verify"):
            map_scorer = MapScorer(maps.source, maps.target, maps.threshold, settings.verification)
            candidates = select_candidates(
                hypotheses,
                matches.probability,
                match_scorer,
                map_scorer,
                settings.candidates,
                settings.refinement.noise,
            )
        with stage("refine"):
            refined = refine_candidates(
                candidates, maps, map_scorer, settings.known_noise(maps), settings.refinement,
                settings.candidates.distinctness,
            )  # fmt: skip
        with stage("judge"):
            evidence = gather_evidence(refined, maps, matches, match_scorer, map_scorer)
            verdict = judge(evidence, line_matcher.calibration, settings.judgement)
    run = RunRecord(line_matcher.name, settings, seed, stage.seconds, unit_warnings)
    return assemble_result(verdict, evidence, refined, matches, maps, run)


def refine(
    source: LineSet,
    target: LineSet,
    pose: Pose,
    *,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    device: str = "cpu",
) -> RegistrationResult:
    """Improve a ``target_T_source`` that is accurate to about the inlier threshold, such as one set by hand.

    No other pose is searched for, so the evidence has no runner-up. ``matcher`` is asked whether it agrees, as in
    :func:`register`.
    """
    stage = StageClock(None)
    with stage("prepare"):
        line_matcher = load_matcher(matcher, device)
        maps = settings.normalize(source.to(device), target.to(device))
    with stage("match"):
        matches = line_matcher.putative_matches(maps, settings.max_matches)
    with torch.inference_mode():
        with stage("refine"):
            map_scorer = MapScorer(maps.source, maps.target, maps.threshold, settings.verification)
            candidates = [maps.normalized_pose(pose.to(device))]
            refined = refine_candidates(candidates, maps, map_scorer, settings.known_noise(maps), settings.refinement)
        with stage("judge"):
            match_scorer = RowScorer(maps.source[matches.source], maps.target[matches.target], maps.threshold)
            evidence = gather_evidence(refined, maps, matches, match_scorer, map_scorer)
            verdict = judge(evidence, line_matcher.calibration, settings.judgement)
    run = RunRecord(line_matcher.name, settings, 0, stage.seconds)
    return assemble_result(verdict, evidence, refined, matches, maps, run)


def register_many(
    pairs: Iterable[tuple[LineSet, LineSet]],
    *,
    processes: int = 1,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
) -> Iterator[RegistrationResult]:
    """Register pair after pair; each result, in order, equals that of :func:`register` for the pair.

    A pair that cannot be registered, such as one with an empty map, gives a failed result instead of an error. With
    several ``processes`` a custom matcher must be picklable.
    """
    registered = partial(_registered, matcher=matcher, settings=settings, seed=seed)
    if processes <= 1:
        yield from map(registered, pairs)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        yield from pool.map(registered, pairs)


def _registered(
    pair: tuple[LineSet, LineSet], matcher: MatcherSource, settings: RegistrationSettings, seed: int
) -> RegistrationResult:
    try:
        return register(*pair, matcher=matcher, settings=settings, seed=seed)
    except InputError as error:
        run = RunRecord(load_matcher(matcher).name, settings, seed)
        return RegistrationResult.without_pose(str(error), (len(pair[0]), len(pair[1])), run)


def _warn_about_units(source: LineSet, target: LineSet) -> tuple[str, ...]:
    """Warn the caller of :func:`register`; returns the sentences for the result."""
    sentence = unit_warning(source, target)
    if sentence is None:
        return ()
    warnings.warn(sentence, UnitWarning, stacklevel=3)
    return (sentence,)


class StageClock:
    """Measures the seconds of each stage and announces its beginning."""

    def __init__(self, on_stage: Callable[[str], None] | None) -> None:
        self.seconds: dict[str, float] = {}
        self._on_stage = on_stage

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time one stage."""
        if self._on_stage is not None:
            self._on_stage(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
