"""Register two line maps: :func:`register` is the method on one page."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor

from plueckernet.errors import InputError, UnitWarning, WorkerLostError
from plueckernet.estimation.extents import unit_warning
from plueckernet.estimation.judgement import DESCRIPTOR_CALIBRATION, judge
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.search import PoseSearch
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.strays import KeptLines
from plueckernet.geometry.arrays import ArrayLike
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.matchers import LineMatcher, MatcherSource, load_matcher
from plueckernet.parallel import Executor, InlineExecutor, ProcessExecutor, in_order
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
    with torch.inference_mode():  # nothing below is differentiated, and operations are many and small
        search = _search(maps, line_matcher, settings, stage)
        assessment = search.run(seed)
        motions = assessment.unobservable_motions(maps, settings.observability)
        verdict = judge(
            assessment.evidence, assessment.weighing, motions, settings.judgement, line_matcher.is_calibrated
        )
    run = RunRecord(line_matcher.name, settings, seed, stage.seconds, unit_warnings)
    return _of_whole_maps(assemble_result(verdict, assessment, motions, search.matches, maps, run), kept, counts)


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
    with torch.inference_mode():
        search = _search(maps, line_matcher, settings, stage)
        assessment = search.around(maps.normalized_pose(pose.to(device)))
        motions = assessment.unobservable_motions(maps, settings.observability)
        verdict = judge(
            assessment.evidence, assessment.weighing, motions, settings.judgement, line_matcher.is_calibrated
        )
    run = RunRecord(line_matcher.name, settings, 0, stage.seconds)
    return _of_whole_maps(assemble_result(verdict, assessment, motions, search.matches, maps, run), kept, counts)


def _search(maps: MapPair, matcher: LineMatcher, settings: RegistrationSettings, stage: StageClock) -> PoseSearch:
    match = partial(matcher.putative_matches, limit=settings.max_matches)
    calibration = matcher.calibration or DESCRIPTOR_CALIBRATION
    return PoseSearch(maps, match, calibration, settings, stage, matcher.matches_parts)


def register_many(  # noqa: PLR0913 - how it is computed, beside the arguments of `register`
    pairs: Iterable[tuple[LinesLike, LinesLike]],
    *,
    processes: int | Executor = 1,
    threads: int | None = None,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
    device: str = "cpu",
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[RegistrationResult]:
    """Register pair after pair; each result, in order, equals that of :func:`register` for the pair.

    A pair that cannot be registered, such as one with an empty map, gives a failed result instead of an error. With
    several ``processes`` a custom matcher must be picklable, a pair whose process dies is registered again, and GPUs
    are shared out. In place of their number, ``processes`` may be an executor of :mod:`plueckernet.parallel`, such as
    one on Ray. ``threads`` are those of each process; by default one, or PyTorch's if there is only this process.
    ``on_progress`` is called with the number of complete pairs.
    """
    single = processes in (0, 1)
    work = partial(
        _registered, matcher=matcher, settings=settings, seed=seed, device=device, threads=threads if single else None
    )
    gpus = torch.cuda.device_count() if device == "cuda" else 0
    executor = processes
    if isinstance(executor, int):
        executor = InlineExecutor() if executor <= 1 else ProcessExecutor(executor, threads or 1, gpus)
    elif threads is not None:
        raise InputError("threads: an executor has its own number of threads")
    with closing(in_order(executor.run(work, pairs))) as outcomes:
        for complete, outcome in enumerate(outcomes, 1):
            if on_progress is not None:
                on_progress(complete)
            if isinstance(outcome.error, WorkerLostError):
                run = RunRecord(load_matcher(matcher).name, settings, seed)
                yield RegistrationResult.without_pose(str(outcome.error), (0, 0), run)
            else:
                yield outcome.result()


def _registered(
    pair: tuple[LinesLike, LinesLike],
    matcher: MatcherSource,
    settings: RegistrationSettings,
    seed: int,
    device: str,
    threads: int | None,
) -> RegistrationResult:
    """The result of a pair, failed if its maps cannot be registered; ``threads`` are set meanwhile."""
    usual_threads = torch.get_num_threads()
    torch.set_num_threads(threads or usual_threads)
    try:
        return register(*pair, matcher=matcher, settings=settings, seed=seed, device=device)
    except InputError as error:
        run = RunRecord(load_matcher(matcher, device).name, settings, seed)
        counts = [len(side) if isinstance(side, LineSet) else 0 for side in pair]
        return RegistrationResult.without_pose(str(error), (counts[0], counts[1]), run)
    finally:
        torch.set_num_threads(usual_threads)


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
