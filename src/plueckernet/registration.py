"""Register two line maps: :func:`register` is the method on one page."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from plueckernet.errors import InputError, UnitWarning, WorkerLostError
from plueckernet.estimation.assessment import counted_motions, height_warning
from plueckernet.estimation.extents import unit_warning
from plueckernet.estimation.judgement import judge
from plueckernet.estimation.maps import check_maps
from plueckernet.estimation.search import RegisteredMaps, pose_around, search_pose
from plueckernet.estimation.settings import RegistrationSettings, direction
from plueckernet.estimation.similarity.search import (
    ScaleChoice,
    scale_range,
    search_similarity,
    similarity_around,
)
from plueckernet.estimation.strays import KeptLines
from plueckernet.geometry.arrays import ArrayLike
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.similarity import Transform, motion_from_matrix
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.locating import RunOptions, smaller_in_larger
from plueckernet.matchers import LineMatcher, MatcherSource, load_matcher
from plueckernet.parallel import Executor, InlineExecutor, ProcessExecutor, in_order
from plueckernet.result import RegistrationResult, RunRecord, assemble_result, with_scale
from plueckernet.stages import StageClock


def register(  # noqa: PLR0913 - two of them, scale and up, say what is searched for
    source: LinesLike,
    target: LinesLike,
    *,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
    device: str = "cpu",
    on_stage: Callable[[str], None] | None = None,
    scale: ScaleChoice = None,
    up: ArrayLike | None = None,
) -> RegistrationResult:
    """Find ``target_T_source``: any rotation, any translation, no initial guess, lines undirected.

    A map is a :class:`~plueckernet.LineSet`, the path of a file, or end points ``(n, 2, 3)`` or ``(n, 6)``. Where a
    :class:`~plueckernet.LineSet` knows the noise of its lines, noisy lines count less.

    The maps may be in any unit, as long as it is the same, and anywhere in space. The same input and seed give the
    same result. ``matcher`` proposes matches: the name or file of weights, "descriptors", which needs no weights, a
    network, or any :class:`~plueckernet.matchers.LineMatcher`. ``on_stage`` is called with the name of each stage as
    it begins. The result is on the CPU whatever the device. Maps that seem to be in different units are registered
    with a :class:`~plueckernet.errors.UnitWarning`, which is also in ``result.warnings``.

    ``scale="unknown"`` searches for the scale between the maps as well, ``scale=(0.9, 1.1)`` for one in that range;
    then ``target_T_source`` is a :class:`~plueckernet.Similarity`. ``up`` is the vertical, known in both maps: only
    turns about it are searched for.
    """
    source, target = as_lines(source), as_lines(target)
    stage, scales = StageClock(on_stage), scale_range(scale)
    settings = settings if up is None else replace(settings, up=direction(up))
    kept, counts = (KeptLines.of(source), KeptLines.of(target)), (len(source), len(target))
    source, target = (side.lines for side in kept)
    with stage("prepare"):
        line_matcher = load_matcher(matcher, device)
        check_maps(source, target)
        said = _warn_about_units(source, target) if scales is None else ()
    lines, matching = (source.to(device), target.to(device)), line_matcher.matching(settings)
    if scales is None and settings.up is None:
        options = RunOptions(settings, seed, device, stage, warnings=said)
        located = smaller_in_larger(source, target, line_matcher, options)
        if located is not None:  # one map is a small part of the other
            return _of_whole_maps(located, kept, counts)
    search = search_pose if scales is None else partial(search_similarity, scales=scales)
    with torch.inference_mode():  # nothing below is differentiated, and operations are many and small
        registered = search(lines, matching, settings, stage, seed)
    return _of_whole_maps(_judged(registered, line_matcher, settings, stage, seed, said), kept, counts)


def refine(
    source: LinesLike,
    target: LinesLike,
    pose: Transform | ArrayLike,
    *,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    device: str = "cpu",
) -> RegistrationResult:
    """Improve a ``target_T_source`` that is accurate to about the inlier threshold, such as one set by hand.

    Maps are given as in :func:`register`, and the pose may be a 4x4 matrix. Where it has a scale, that is refined, too.

    The pose is kept whatever else explains the maps. Its confidence takes into account what the matcher and other
    poses say, as in :func:`register`.
    """
    source, target = as_lines(source), as_lines(target)
    motion = pose if isinstance(pose, Transform) else motion_from_matrix(pose).to(torch.float64)
    stage = StageClock()
    kept, counts = (KeptLines.of(source), KeptLines.of(target)), (len(source), len(target))
    lines = kept[0].lines.to(device), kept[1].lines.to(device)
    with stage("prepare"):
        line_matcher = load_matcher(matcher, device)
        matching = line_matcher.matching(settings)
    with torch.inference_mode():
        if isinstance(motion, Pose):
            registered = pose_around(lines, matching, settings, stage, motion.to(device))
        else:
            registered = similarity_around(lines, matching, settings, stage, motion.to(device))
    return _of_whole_maps(_judged(registered, line_matcher, settings, stage, 0), kept, counts)


def _judged(
    registered: RegisteredMaps,
    line_matcher: LineMatcher,
    settings: RegistrationSettings,
    stage: StageClock,
    seed: int,
    said: tuple[str, ...] = (),
) -> RegistrationResult:
    """The result of a search, with its status; ``said`` are warnings about the maps."""
    maps, assessment = registered.maps, registered.assessment
    with torch.inference_mode():
        motions = assessment.unobservable_motions(maps, settings.observability, settings.up)
        counted = counted_motions(motions, settings.up)
        judgement = settings.judgement.where(maps.are_infinite)
        verdict = judge(assessment.evidence, assessment.weighing, counted, judgement, line_matcher.is_calibrated)
    said = (*said, *registered.warnings, *height_warning(motions, settings.up))
    run = RunRecord(line_matcher.name, settings, seed, stage.seconds, said)
    result = assemble_result(verdict, assessment, motions, registered.matches, maps, run)
    return result if registered.scale is None else with_scale(result, registered.scale, registered.covariance)


def register_many(  # noqa: PLR0913 - how it is computed, beside the arguments of `register`
    pairs: Iterable[tuple[LinesLike, LinesLike]],
    *,
    processes: int | Executor = 1,
    threads: int | None = None,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
    device: str = "cpu",
    scale: ScaleChoice = None,
    up: ArrayLike | None = None,
    on_progress: Callable[[int], None] | None = None,
    batch_size: int | None = None,
) -> Iterator[RegistrationResult]:
    """Register pair after pair; each result, in order, equals that of :func:`register` for the pair.

    A pair that cannot be registered, such as one with an empty map, gives a failed result instead of an error. With
    several ``processes`` a custom matcher must be picklable, a pair whose process dies is registered again, and GPUs
    are shared out. In place of their number, ``processes`` may be an executor of :mod:`plueckernet.parallel`, such as
    one on Ray. ``threads`` are those of each process; by default one, or PyTorch's if there is only this process.
    ``on_progress`` is called with the number of complete pairs.

    With a ``batch_size`` so many pairs of like size are registered at once on ``device``, which is what a GPU is fast
    at; poses then agree to rounding. Where there is too little memory, batches are halved with a
    :class:`~plueckernet.errors.BatchSizeWarning`.
    """
    if batch_size is not None:
        arguments = {"matcher": matcher, "settings": settings, "seed": seed, "device": device, "scale": scale, "up": up}
        yield from _in_batches(pairs, batch_size, arguments, (processes, threads), on_progress)
        return
    single, settings = processes in (0, 1), settings if up is None else replace(settings, up=direction(up))
    arguments = {"matcher": matcher, "settings": settings, "seed": seed, "device": device, "scale": scale}
    work = partial(_registered, arguments=arguments, threads=threads if single else None)
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


def _in_batches(
    pairs: Iterable[tuple[LinesLike, LinesLike]],
    batch_size: int,
    arguments: dict[str, Any],
    workers: tuple[int | Executor, int | None],
    on_progress: Callable[[int], None] | None,
) -> Iterator[RegistrationResult]:
    """The results of pairs, many of which are registered at once."""
    from plueckernet.batching import BatchRegistration, BatchRun  # which one pair needs none of

    if workers[0] not in (0, 1):
        raise InputError("batch_size: batches are registered in one process")
    settings, up = arguments["settings"], arguments.pop("up")
    arguments["settings"] = settings = settings if up is None else replace(settings, up=direction(up))
    line_matcher = load_matcher(arguments["matcher"], arguments["device"])
    register_single = partial(_registered, arguments=arguments, threads=workers[1])
    run = BatchRun(
        line_matcher, settings, arguments["seed"], arguments["device"], register_single, arguments["scale"] is None
    )
    for complete, result in enumerate(BatchRegistration(run, batch_size).results(pairs), 1):
        if on_progress is not None:
            on_progress(complete)
        yield result


def _registered(
    pair: tuple[LinesLike, LinesLike], arguments: dict[str, Any], threads: int | None
) -> RegistrationResult:
    """The result of a pair, failed if its maps cannot be registered; ``threads`` are set meanwhile."""
    usual_threads = torch.get_num_threads()
    torch.set_num_threads(threads or usual_threads)
    try:
        return register(*pair, **arguments)
    except InputError as error:
        matcher = load_matcher(arguments["matcher"], arguments["device"])
        run = RunRecord(matcher.name, arguments["settings"], arguments["seed"])
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
