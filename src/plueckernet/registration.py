"""Register two line maps: :func:`register` is the method on one page."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import torch
from jaxtyping import Int
from torch import Tensor

from plueckernet.errors import InputError, UnitWarning
from plueckernet.estimation.extents import unit_warning
from plueckernet.estimation.judgement import DESCRIPTOR_CALIBRATION, judge
from plueckernet.estimation.search import PoseSearch
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.strays import KeptLines
from plueckernet.geometry.arrays import ArrayLike
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.locating import RunOptions, smaller_in_larger
from plueckernet.matchers import MatcherSource, load_matcher
from plueckernet.result import RegistrationResult, RunRecord, assemble_result
from plueckernet.stages import StageClock


def register(
    source: LinesLike,
    target: LinesLike,
    *,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
    device: str = "cpu",
    on_stage: Callable[[str], None] | None = None,
) -> RegistrationResult:
    """Find ``target_T_source``: any rotation, any translation, no initial guess, lines undirected.

    A map is a :class:`~plueckernet.LineSet`, the path of a file, or end points ``(n, 2, 3)`` or ``(n, 6)``. Where a
    :class:`~plueckernet.LineSet` knows the noise of its lines, noisy lines count less.

    The maps may be in any unit, as long as it is the same, and anywhere in space. The same input and seed give the
    same result. ``matcher`` proposes matches: the name or file of weights, "descriptors", which needs no weights, a
    network, or any :class:`~plueckernet.matchers.LineMatcher`. ``on_stage`` is called with the name of each stage as
    it begins. The result is on the CPU whatever the device. Maps that seem to be in different units are registered
    with a :class:`~plueckernet.errors.UnitWarning`, which is also in ``result.warnings``.
    """
    source, target = as_lines(source), as_lines(target)
    stage = StageClock(on_stage)
    kept, counts = (KeptLines.of(source), KeptLines.of(target)), (len(source), len(target))
    source, target = (side.lines for side in kept)
    with stage("prepare"):
        line_matcher = load_matcher(matcher, device)
        maps = settings.normalize(source.to(device), target.to(device))
        unit_warnings = _warn_about_units(source, target)
    options = RunOptions(settings, seed, device, stage, warnings=unit_warnings)
    located = smaller_in_larger(source, target, maps, line_matcher, options)
    if located is not None:  # one map is a small part of the other
        return _of_whole_maps(located, kept, counts)
    match = partial(line_matcher.putative_matches, limit=settings.max_matches)
    with stage("match"):
        matches = match(maps)
    with torch.inference_mode():  # nothing below is differentiated, and operations are many and small
        search = PoseSearch(maps, matches, line_matcher.calibration or DESCRIPTOR_CALIBRATION, settings, stage, match)
        assessment = search.run(seed)
        motions = assessment.unobservable_motions(maps, settings.observability)
        verdict = judge(
            assessment.evidence, assessment.weighing, motions, settings.judgement, line_matcher.is_calibrated
        )
    run = RunRecord(line_matcher.name, settings, seed, stage.seconds, unit_warnings)
    return _of_whole_maps(assemble_result(verdict, assessment, motions, matches, maps, run), kept, counts)


def refine(
    source: LinesLike,
    target: LinesLike,
    pose: Pose | ArrayLike,
    *,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    device: str = "cpu",
) -> RegistrationResult:
    """Improve a ``target_T_source`` that is accurate to about the inlier threshold, such as one set by hand.

    Maps are given as in :func:`register`, and the pose may be a 4x4 matrix.

    The pose is kept whatever else explains the maps. Its confidence takes into account what the matcher and other
    poses say, as in :func:`register`.
    """
    source, target = as_lines(source), as_lines(target)
    pose = pose if isinstance(pose, Pose) else Pose.from_matrix(pose).to(torch.float64)
    stage = StageClock()
    kept, counts = (KeptLines.of(source), KeptLines.of(target)), (len(source), len(target))
    source, target = (side.lines for side in kept)
    with stage("prepare"):
        line_matcher = load_matcher(matcher, device)
        maps = settings.normalize(source.to(device), target.to(device))
    with stage("match"):
        matches = line_matcher.putative_matches(maps, settings.max_matches)
    with torch.inference_mode():
        search = PoseSearch(maps, matches, line_matcher.calibration or DESCRIPTOR_CALIBRATION, settings, stage)
        assessment = search.around(maps.normalized_pose(pose.to(device)))
        motions = assessment.unobservable_motions(maps, settings.observability)
        verdict = judge(
            assessment.evidence, assessment.weighing, motions, settings.judgement, line_matcher.is_calibrated
        )
    run = RunRecord(line_matcher.name, settings, 0, stage.seconds)
    return _of_whole_maps(assemble_result(verdict, assessment, motions, matches, maps, run), kept, counts)


def register_many(
    pairs: Iterable[tuple[LinesLike, LinesLike]],
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
    pair: tuple[LinesLike, LinesLike], matcher: MatcherSource, settings: RegistrationSettings, seed: int
) -> RegistrationResult:
    try:
        return register(*pair, matcher=matcher, settings=settings, seed=seed)
    except InputError as error:
        run = RunRecord(load_matcher(matcher).name, settings, seed)
        counts = [len(side) if isinstance(side, LineSet) else 0 for side in pair]
        return RegistrationResult.without_pose(str(error), (counts[0], counts[1]), run)


def _of_whole_maps(
    result: RegistrationResult, kept: tuple[KeptLines, KeptLines], counts: tuple[int, int]
) -> RegistrationResult:
    """The result in rows of the maps as they were given, and what was left out of them."""
    if all(side.rows is None for side in kept):
        return result
    said = (*kept[0].warning("source", counts[0]), *kept[1].warning("target", counts[1]))

    def whole(rows: Int[Tensor, "k 2"]) -> Int[Tensor, "k 2"]:
        return torch.stack([side.whole_rows(rows[:, column]) for column, side in enumerate(kept)], -1)

    return replace(
        result,
        matches=whole(result.matches),
        inliers=whole(result.inliers),
        num_lines=counts,
        warnings=(*result.warnings, *said),
    )


def _warn_about_units(source: LineSet, target: LineSet) -> tuple[str, ...]:
    """Warn the caller of :func:`register`; returns the sentences for the result."""
    sentence = unit_warning(source, target)
    if sentence is None:
        return ()
    warnings.warn(sentence, UnitWarning, stacklevel=3)
    return (sentence,)
