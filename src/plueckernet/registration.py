"""Register two line maps: :func:`register` is the whole method in one page."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from multiprocessing import get_context
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.judgement import Evidence, Status, judge
from plueckernet.estimation.maps import MapPair, normalised_maps
from plueckernet.estimation.matching import DescriptorSettings, Matches, match_log_probability, top_matches
from plueckernet.estimation.ransac import Hypotheses, RansacSettings, ransac_pose
from plueckernet.estimation.refinement import (
    Refinement,
    RefinementSettings,
    close_pairs,
    polish,
    refine_pose,
    search_tolerance,
    short_length,
)
from plueckernet.estimation.scoring import AnchoredLines, RowScorer, Tolerance
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel, line_residuals
from plueckernet.models.matcher import Matcher, PlueckerConfig
from plueckernet.models.weights import load_pretrained
from plueckernet.result import Alternative, RegistrationResult

STAGES = ("prepare", "match", "estimate", "verify", "refine", "judge")
_BRIEFLY = RefinementSettings(iterations=4, final=1)
_ON_ALL = RefinementSettings(iterations=4, short_lines=True)
_PROMISING = 24  # poses held against all lines
_HOPELESS = 0.2  # share of the best score on the matches below which a hypothesis is not looked at again
_OUTDONE = 0.4  # share of the best score on all lines below which a pose is not refined, unless it is the second best


@runtime_checkable
class LineMatcher(Protocol):
    """Anything that tells which lines of two maps may be one."""

    def __call__(self, source: LineSet, target: LineSet) -> Float[Tensor, "m n"]:
        """Log-probability of each pair; the maps are centred and in one unit, about their radius."""
        ...


@dataclass(frozen=True)
class RegistrationSettings:
    """None of these needs to be set; lengths are in the unit of the maps."""

    directed: bool = False  # trust the way lines are written
    position_tolerance: float | None = None  # from where on two lines differ; derived from the maps
    angle_tolerance: float = 8.0  # degrees
    position_noise: float | None = None  # one sigma of a line's position; estimated
    direction_noise: float | None = None  # one sigma of its direction in degrees; estimated
    noise_at_origin: bool = False  # infinite lines err at their feet from the origin, not from the middle
    max_lines: int = 1000  # of a map that are matched and verified: the longest
    max_matches: int = 800
    max_verified: int = 150  # distinct poses held against lines beyond the matches
    max_candidates: int = 5  # of which refined
    ransac: RansacSettings = field(default_factory=RansacSettings)


def register(
    source: LineSet,
    target: LineSet,
    *,
    matcher: LineMatcher | str = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
    device: str = "cpu",
    on_stage: Callable[[str], None] | None = None,
) -> RegistrationResult:
    """Find ``target_T_source``: any rotation, any translation, no initial guess, lines undirected.

    The maps may be in any unit, as long as it is the same, and anywhere in space. The same input and seed give
    the same result. ``matcher`` proposes which lines may be one: weights by their name or file, "descriptors", which
    needs none, or any :class:`LineMatcher`. ``on_stage`` is told the name of each stage as it begins.
    """
    clock = _Clock(on_stage)
    with clock("prepare"):
        maps = _prepared(source.to(device), target.to(device), settings)
    with clock("match"):
        matches = _matched(maps, matcher, settings)
    with clock("estimate"):
        found = ransac_pose(
            maps.source[matches.source], maps.target[matches.target], matches.probability,
            maps.tolerance, settings.ransac, seed,
        )  # fmt: skip
    with clock("verify"), torch.inference_mode():  # as in the next stage, operations are many and small
        candidates = _verified(found, matches, maps, settings)
    with clock("refine"), torch.inference_mode():
        refined = _refined(candidates, maps, settings)
    with clock("judge"):
        evidence = _evidence(refined, None if matcher == "descriptors" else matches, maps)
    return _result(evidence, refined, matches, maps, clock, settings, seed)


def register_many(
    pairs: Iterable[tuple[LineSet, LineSet]],
    *,
    processes: int = 1,
    matcher: LineMatcher | str = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
) -> Iterator[RegistrationResult]:
    """Register pair after pair; each result, in order, is the one :func:`register` gives for that pair alone.

    A pair that cannot be registered at all, such as an empty map, gives a failed result instead of an error, so that
    the others are not lost. With several ``processes`` a matcher of one's own has to be one that can be pickled.
    """
    one = partial(_registered, matcher=matcher, settings=settings, seed=seed)
    if processes <= 1:
        yield from map(one, pairs)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        yield from pool.map(one, pairs)


def refine(
    source: LineSet,
    target: LineSet,
    pose: Pose,
    *,
    matcher: LineMatcher | str = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
) -> RegistrationResult:
    """Improve a ``target_T_source`` that is good to about the tolerance, such as one given by hand.

    No other pose is searched for: the confidence takes a rival of middling strength for granted. ``matcher`` is asked
    whether it agrees, as in :func:`register`.
    """
    clock = _Clock(None)
    with clock("prepare"):
        maps = _prepared(source, target, settings)
    with clock("match"):
        matches = _matched(maps, matcher, settings)
    with clock("refine"), torch.inference_mode():
        refined = _refined([maps.normalised(pose)], maps, settings)
    with clock("judge"):
        evidence = _evidence(refined, None if matcher == "descriptors" else matches, maps)
    return _result(evidence, refined, matches, maps, clock, settings, seed=0)


def coincident_lines(
    source: LineSet, target: LineSet, pose: Pose, *, settings: RegistrationSettings = RegistrationSettings()
) -> tuple[Int[Tensor, "k 2"], Float[Tensor, "k 2"]]:
    """Pairs of lines that lie on each other under any pose, with the distance and the angle (degrees) of each.

    A pair is within the tolerance, and for both of its lines the best one; of pieces of one line, the nearest.
    """
    maps = _prepared(source, target, settings)
    pose, tolerance = maps.normalised(pose), maps.tolerance
    pairs = close_pairs(pose, maps.all_source, maps.all_target, tolerance)
    rows = pairs.rows
    residuals = _residuals(pose, rows, maps)
    scale = residuals.new_tensor([tolerance.position * maps.unit, math.degrees(tolerance.angle)])
    apart = (pose.act(maps.all_source.anchor[rows[:, 0]]) - maps.all_target.anchor[rows[:, 1]]).norm(dim=-1)
    misfit = (residuals / scale).square().sum(-1) + 1e-3 * apart
    best = pairs.mutual_best((-misfit).exp())
    return rows[best], residuals[best]


def suggested_tolerance(source: LineSet, target: LineSet) -> float:
    """The position tolerance that is derived from two maps, in their unit."""
    maps = _prepared(source, target, RegistrationSettings())
    return maps.tolerance.position * maps.unit


def _registered(
    pair: tuple[LineSet, LineSet], matcher: LineMatcher | str, settings: RegistrationSettings, seed: int
) -> RegistrationResult:
    try:
        return register(*pair, matcher=matcher, settings=settings, seed=seed)
    except InputError as error:
        return RegistrationResult.without_pose(str(error), (len(pair[0]), len(pair[1])), asdict(settings), seed)


def _prepared(source: LineSet, target: LineSet, settings: RegistrationSettings) -> MapPair:
    angle = math.radians(settings.angle_tolerance)
    return normalised_maps(source, target, settings.max_lines, angle, settings.position_tolerance, settings.directed)


class _Clock:
    """Seconds by stage, and a word to whoever waits when one begins."""

    def __init__(self, on_stage: Callable[[str], None] | None) -> None:
        self.seconds: dict[str, float] = {}
        self._on_stage = on_stage

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        if self._on_stage is not None:
            self._on_stage(stage)
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start


def _matched(maps: MapPair, matcher: LineMatcher | str, settings: RegistrationSettings) -> Matches:
    if matcher == "descriptors":
        local = maps.source.reach is not None
        descriptors = DescriptorSettings(neighbourhood=1.5 if local else 5.0)
        log_probability = match_log_probability(maps.source, maps.target, descriptors)
    else:
        log_probability = _network(matcher, maps) if isinstance(matcher, str) else matcher(*maps.lines)
    return top_matches(log_probability, settings.max_matches)


def _network(name: str, maps: MapPair) -> Float[Tensor, "m n"]:
    """What the weights of that name or file say; the paper's see the coordinates as they came."""
    network = _pretrained(name, str(maps.source.anchor.device))
    raw = isinstance(network.config, PlueckerConfig)
    return network.match(*(maps.lines_as_they_came if raw else maps.lines))


@lru_cache(maxsize=4)
def _pretrained(name: str, device: str) -> Matcher:
    """Kept, because reading weights takes as long as using them."""
    network = load_pretrained(name, device)
    if not isinstance(network, Matcher):
        raise InputError(f"{name} does not match lines")
    return network


def _evidence(refined: list[tuple[float, Refinement]], matches: Matches | None, maps: MapPair) -> Evidence:
    """What speaks for the best candidate: both maps and, if their probabilities mean something, the matches."""
    if not refined:
        return Evidence.nothing(maps.counts, None if matches is None else 0.0)
    pose, rows = _one(refined[0][1].pose), refined[0][1].matches
    explained, expected = maps.scorer.explained(pose)
    agreement = None if matches is None else _agreement(pose, matches, maps)
    borne_out = float(explained / expected.clamp_min(1e-6))
    directions = maps.all_target.lines.direction[rows[:, 1]]
    return Evidence.gather(refined, maps.counts, borne_out, directions, agreement)


def _agreement(pose: Pose, matches: Matches, maps: MapPair) -> float:
    """The share of all probability that the matcher gave to pairs which lie on each other."""
    scorer = RowScorer(maps.source[matches.source], maps.target[matches.target], maps.tolerance)
    return float(scorer.scores(pose, matches.probability)) / max(float(matches.probability.sum()), 1e-12)


def _one(pose: Pose) -> Pose:
    """A batch of one pose."""
    return Pose(pose.rotation[None], pose.translation[None])


def _verified(found: Hypotheses, matches: Matches, maps: MapPair, settings: RegistrationSettings) -> list[Pose]:
    """Of the distinct hypotheses those that explain most of both maps, not only of the matches."""
    poses = found.poses[_apart(found.poses, found.scores, maps.tolerance, settings.max_verified)]
    poses = maps.scorer.promising(poses, _PROMISING)
    poses = _polished(poses, matches, maps)
    scores, best = maps.scorer.scores(poses).topk(min(settings.max_candidates, poses.rotation.shape[0]))
    return [poses[index] for place, index in enumerate(best) if place < 2 or scores[place] > _OUTDONE * scores[0]]


def _polished(poses: Pose, matches: Matches, maps: MapPair) -> Pose:
    """Poses of two lines are rough; those that a step on all of their matches makes better take it."""
    source, target = maps.source[matches.source], maps.target[matches.target]
    scorer = RowScorer(source, target, maps.tolerance)
    stepped = polish(poses, source, target, scorer)
    better = scorer.scores(stepped, matches.probability) > scorer.scores(poses, matches.probability)
    return Pose(
        torch.where(better[:, None, None], stepped.rotation, poses.rotation),
        torch.where(better[:, None], stepped.translation, poses.translation),
    )


def _apart(poses: Pose, scores: Tensor, tolerance: Tolerance, most: int) -> Int[Tensor, " k"]:
    """Greedily the best poses that are neither hopeless nor close to a better one."""
    order = scores.argsort(descending=True, stable=True)
    close = _close(poses[order], poses[order], tolerance).cpu().numpy()
    left = (scores[order] > _HOPELESS * scores[order[:1]]).cpu().numpy()
    chosen: list[int] = []
    while len(chosen) < most and left.any():
        chosen.append(int(left.argmax()))
        left &= ~close[chosen[-1]]
    return order[chosen]


def _close(poses: Pose, to: Pose, tolerance: Tolerance) -> Bool[Tensor, "h k"]:
    """Poses that the tolerance hardly tells apart."""
    cosine = (poses.rotation.flatten(-2) @ to.rotation.flatten(-2).mT - 1) / 2
    shift = torch.cdist(poses.translation, to.translation)
    return (cosine > math.cos(tolerance.angle)) & (shift < 2 * tolerance.position)


def _refined(candidates: list[Pose], maps: MapPair, settings: RegistrationSettings) -> list[tuple[float, Refinement]]:
    """Candidates refined on all lines, by the number of lines they explain; the best to the end, the others a bit."""
    noise = _given_noise(maps, settings)
    found: list[tuple[float, Refinement]] = []

    def known(pose: Pose) -> bool:
        return any(bool(_close(_one(pose), _one(one.pose), maps.tolerance)) for _, one in found)

    for candidate in candidates:
        if known(candidate):  # it would end there, too
            continue
        refinement = refine_pose(candidate, maps.source, maps.target, maps.tolerance, noise, _BRIEFLY)
        if refinement is not None and not known(refinement.pose):
            found.append((float(maps.scorer.scores(_one(refinement.pose))), refinement))
    found.sort(key=lambda one: -one[0])
    if found:
        score, best = found[0]
        found[0] = score, _finished(best, maps, noise, settings)
    return found


def _finished(best: Refinement, maps: MapPair, noise: NoiseModel | None, settings: RegistrationSettings) -> Refinement:
    """To convergence on the core, then on all lines; matches refer to all lines."""
    core = refine_pose(best.pose, maps.source, maps.target, maps.tolerance, noise) or best
    if settings.noise_at_origin and maps.source.reach is None:
        source = AnchoredLines.of(maps.source.lines, -maps.source_offset / maps.unit)
        target = AnchoredLines.of(maps.target.lines, -maps.target_offset / maps.unit)
        core = refine_pose(core.pose, source, target, maps.tolerance, noise) or core
    rows = torch.stack([maps.source_core[core.matches[:, 0]], maps.target_core[core.matches[:, 1]]], -1)
    core = replace(core, matches=rows)
    if settings.noise_at_origin or len(maps.all_source) + len(maps.all_target) == sum(maps.counts):
        return core
    shortest = short_length(maps.all_source, maps.all_target)
    narrow = search_tolerance(core.noise, maps.tolerance, shortest)
    return refine_pose(core.pose, maps.all_source, maps.all_target, narrow, noise, _ON_ALL) or core


def _given_noise(maps: MapPair, settings: RegistrationSettings) -> NoiseModel | None:
    if settings.position_noise is None or settings.direction_noise is None:
        return None
    return NoiseModel(settings.position_noise / maps.unit, math.radians(settings.direction_noise))


def _result(
    evidence: Evidence,
    refined: list[tuple[float, Refinement]],
    matches: Matches,
    maps: MapPair,
    clock: _Clock,
    settings: RegistrationSettings,
    seed: int,
) -> RegistrationResult:
    """Everything back in the frames and the unit of the maps."""
    verdict = judge(evidence)
    failed = verdict.status is Status.FAILED
    best = refined[0][1] if refined else None
    others = tuple(Alternative(maps.pose(one.pose), score) for score, one in refined[0 if failed else 1 :])
    return RegistrationResult(
        status=verdict.status,
        reason=verdict.reason,
        target_T_source=None if failed or best is None else maps.pose(best.pose),
        covariance=None if failed or best is None else maps.covariance(best.covariance),
        confidence=verdict.confidence,
        evidence=evidence,
        matches=torch.stack([maps.source_core[matches.source], maps.target_core[matches.target]], -1),
        inliers=matches.source.new_zeros(0, 2) if best is None else best.matches.clone(),
        residuals=torch.zeros(0, 2, dtype=torch.float64) if best is None else _residuals(best.pose, best.matches, maps),
        alternatives=others,
        score=refined[0][0] if refined else 0.0,
        noise=(best.noise.position * maps.unit, math.degrees(best.noise.direction)) if best else (0.0, 0.0),
        timings=clock.seconds,
        settings=asdict(settings) | {"position_tolerance": maps.tolerance.position * maps.unit},
        seed=seed,
        num_lines=(len(maps.all_source), len(maps.all_target)),
        centre=None if failed or best is None else _centre(best, maps),
    )


def _residuals(pose: Pose, rows: Int[Tensor, "k 2"], maps: MapPair) -> Float[Tensor, "k 2"]:
    """Distance in the unit of the maps and angle in degrees of each pair."""
    source, target = maps.all_source[rows[:, 0]], maps.all_target[rows[:, 1]]
    left = line_residuals(pose, source.lines, target.lines, source.anchor, target.anchor)
    distance, sine = left.position.norm(dim=-1) * maps.unit, left.direction.norm(dim=-1)
    return torch.stack([distance, sine.clamp(max=1).asin().rad2deg()], -1)


def _centre(best: Refinement, maps: MapPair) -> Float[Tensor, "3"]:
    return maps.all_target.anchor[best.matches[:, 1]].mean(0) * maps.unit + maps.target_offset
