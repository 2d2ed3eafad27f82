"""Many pairs of maps registered at once on one device, with the results of one at a time.

The first rounds of :class:`~plueckernet.estimation.search.PoseSearch`, with the matches of the longest lines and, where
that is not clear, of all lines, are made for all pairs of a batch in the same tensor operations, and so is the
refinement to convergence that follows. A pair is complete if its best candidate is clear, all of its motions are
observable, it explains so much that it hides no firm runner-up, and no symmetry of a map makes another pose
exchangeable with it. All other pairs are registered by themselves.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import BatchSizeWarning, InputError
from plueckernet.estimation.assessment import Assessment
from plueckernet.estimation.batched.assessing import AssessedPair, assessed_pairs
from plueckernet.estimation.batched.completed import CompletedPairs
from plueckernet.estimation.batched.family import has_no_family
from plueckernet.estimation.batched.look import BatchedSearch, Look
from plueckernet.estimation.batched.observability import least_firmness
from plueckernet.estimation.batched.preparation import BatchedMaps, prepare
from plueckernet.estimation.extents import unit_warning
from plueckernet.estimation.judgement import JudgementSettings, Status, judge
from plueckernet.estimation.map_parts import MAX_PART_MATCHES
from plueckernet.estimation.maps import MIN_LINES
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.matchers import LineMatcher, MatchFrame, NetworkMatcher
from plueckernet.models.matcher import InvariantConfig
from plueckernet.result import Alternative, RegistrationResult
from plueckernet.stages import StageClock

_WINDOW = 4  # batches of pairs that are read ahead, of which those of like size make a batch
_SIZES_PER_DOUBLING = 2  # of the sizes to which maps are padded

_PAIRS_OF_LINES = 1 << 25  # of all maps whose lines are matched at once with all lines of another
_FIRM = 1 + 1e-9  # of the least firmness, that rounding may not decide about

Pair = tuple[LinesLike, LinesLike]
LineSets = tuple[LineSet, LineSet]


@dataclass(frozen=True)
class BatchRun:
    """What is the same for all pairs."""

    matcher: LineMatcher
    settings: RegistrationSettings
    seed: int
    device: str
    register_single: Callable[[Pair], RegistrationResult]  # registers one pair by itself
    is_rigid: bool = True  # False: a scale is searched for

    @property
    def is_possible(self) -> bool:
        """Whether the batched search covers these settings and this matcher."""
        return self.is_rigid and _is_invariant(self.matcher) and _is_covered(self.settings)

    def match(self, source: LineSet, target: LineSet) -> Float[Tensor, "b m n"]:
        """Log-probability of each pair of lines of padded maps."""
        return _log_probability(self.matcher, source, target)

    def match_longest(self, source: LineSet, target: LineSet) -> Float[Tensor, "b m n"]:
        """The same for the first look at the longest lines."""
        return _log_probability(self.matcher.first_look or self.matcher, source, target)


def _log_probability(matcher: LineMatcher, source: LineSet, target: LineSet) -> Float[Tensor, "b m n"]:
    if not isinstance(matcher, NetworkMatcher):
        raise TypeError(f"{matcher.name}: only a network matches many pairs of maps at once")
    return matcher.network(source, target).log_probability


def _is_invariant(matcher: LineMatcher) -> bool:
    """Whether these are networks that depend neither on the unit nor on the frame of the maps."""
    if matcher.first_look is not None and not _is_invariant(matcher.first_look):
        return False
    config = matcher.network.config if isinstance(matcher, NetworkMatcher) else None
    return isinstance(config, InvariantConfig) and config.scale == "joint" and matcher.frame is MatchFrame.NORMALIZED


@dataclass(frozen=True, eq=False)
class _Round:
    """What a round of the search found in some pairs of a batch."""

    rows: list[int]  # of the pairs in the batch
    is_clear: list[bool]
    entries: list[AssessedPair | None]  # None: the pair is not complete
    completed: CompletedPairs


class BatchRegistration:
    """Registers pairs in batches of like size; out of memory, in smaller ones from then on."""

    def __init__(self, run: BatchRun, batch_size: int) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size: expected a number of at least 1, got {batch_size}")
        self._run, self.batch_size = run, batch_size
        self.num_single = 0  # pairs that were registered by themselves
        self.stage = StageClock()  # of all batches

    def results(self, pairs: Iterable[Pair]) -> Iterator[RegistrationResult]:
        """The result of each pair, in their order."""
        remaining = iter(pairs)
        while window := list(itertools.islice(remaining, _WINDOW * self.batch_size)):
            yield from self._of_window(window)

    def _of_window(self, window: Sequence[Pair]) -> Iterator[RegistrationResult]:
        maps = [_read(pair) if self._run.is_possible else None for pair in window]
        results: dict[int, RegistrationResult | None] = {}
        for rows in _buckets(maps, self._run.settings, self._run.matcher.few_lines(self._run.settings)):
            bucket = [pair for row in rows if (pair := maps[row]) is not None]
            results |= zip(rows, self._of_bucket(bucket), strict=True)
        for place, pair in enumerate(window):
            result = results.get(place)
            yield self._registered_singly(maps[place] or pair) if result is None else result

    def _of_bucket(self, pairs: Sequence[LineSets]) -> list[RegistrationResult | None]:
        """The results of pairs of like size; None for one that has to be registered by itself."""
        results: list[RegistrationResult | None] = []
        while len(results) < len(pairs):
            batch = pairs[len(results) : len(results) + self.batch_size]
            computed = self._within_memory(batch)
            if computed is not None:
                results += computed
            elif len(batch) == 1:
                results.append(None)
            else:
                self._halve(len(batch))
        return results

    def _within_memory(self, batch: Sequence[LineSets]) -> list[RegistrationResult | None] | None:
        """The results of a batch; None out of memory, with what the batch held set free."""
        try:
            return self._of_batch(batch)
        except torch.OutOfMemoryError:  # whoever handles it here still holds the tensors of the batch
            return None

    def _halve(self, count: int) -> None:
        self.batch_size = count // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        sentence = f"Out of memory with {count} pairs of maps at once: from now on {self.batch_size} are registered."
        warnings.warn(sentence, BatchSizeWarning, stacklevel=2)

    def _registered_singly(self, pair: Pair) -> RegistrationResult:
        self.num_single += 1
        return self._run.register_single(pair)

    def _of_batch(self, pairs: Sequence[LineSets]) -> list[RegistrationResult | None]:
        """The result of each pair; None for one that has to be registered by itself."""
        clock, counts = StageClock(), [(len(source), len(target)) for source, target in pairs]
        with torch.inference_mode():
            with clock("prepare"):
                maps, rows = self._prepared(pairs)
            rounds = self._searched(maps, [counts[row] for row in rows], clock) if rows else []
        results: dict[int, RegistrationResult | None] = dict.fromkeys(range(len(pairs)))
        with clock("judge"):
            for completed_round in rounds:
                places = [rows[row] for row in completed_round.rows]
                results |= {
                    place: self._result(completed_round, row, counts[place]) for row, place in enumerate(places)
                }
        for name, value in clock.seconds.items():
            self.stage.seconds[name] = self.stage.seconds.get(name, 0.0) + value
        for result in results.values():
            if result is not None:  # a share of the time of all
                result.timings.update((name, value / len(pairs)) for name, value in clock.seconds.items())
        return list(results.values())

    def _prepared(self, pairs: Sequence[LineSets]) -> tuple[BatchedMaps, list[int]]:
        """The regular pairs, normalized, and their rows: without strays, in one unit, not nearly parallel."""
        prepared = prepare(pairs, self._run.settings, self._run.device)
        regular, same_unit = prepared.regular.tolist(), prepared.same_unit.tolist()
        rows = [
            row for row, pair in enumerate(pairs) if regular[row] and (same_unit[row] or unit_warning(*pair) is None)
        ]
        if rows and len(rows) < len(pairs):  # rare
            prepared = prepare([pairs[row] for row in rows], self._run.settings, self._run.device)
        return prepared.maps, rows

    def _searched(self, maps: BatchedMaps, counts: Sequence[tuple[int, int]], clock: StageClock) -> list[_Round]:
        """The round of the longest lines, and for pairs that are not clear after it that of all lines."""
        run, settings = self._run, self._run.settings
        search = BatchedSearch(maps, settings, clock)
        lines, every = (settings.first_lines, min(settings.max_matches, MAX_PART_MATCHES)), max(map(max, counts))
        if every <= run.matcher.few_lines(settings):
            look = search.look(run.match, (every, settings.max_matches), run.seed, settings.usual_round)
            return [self._finished(search, look, range(len(maps)), counts, all_lines=True)]
        look = search.look(run.match_longest, lines, run.seed, settings.first_round)
        rounds = [self._finished(search, look, range(len(maps)), counts, all_lines=False)]
        unclear = [row for row, clear in enumerate(rounds[0].is_clear) if not clear]
        size = max(1, _PAIRS_OF_LINES // every**2)
        for start in range(0, len(unclear), size):
            rows = unclear[start : start + size]
            index = torch.tensor(rows, device=maps.unit.device)
            some = search.of_pairs(index)
            look_at_all = some.look(
                run.match, (every, settings.max_matches), run.seed, settings.usual_round, look.of_pairs(index)
            )
            own = [counts[row] for row in rows]
            rounds.append(self._finished(some, look_at_all, rows, own, all_lines=True))
        return rounds

    def _finished(
        self,
        search: BatchedSearch,
        look: Look,
        rows: Sequence[int],
        counts: Sequence[tuple[int, int]],
        all_lines: bool,
    ) -> _Round:
        """The best candidates refined to convergence, and which pairs are complete with that."""
        run, settings, maps, looked_at = self._run, self._run.settings, search.maps, look.looked_at
        infinite = maps.source.half_length is None
        with search.timed("judge"):
            calibration = run.matcher.matching(settings).calibration.where(settings.up is not None, infinite)
            entries = assessed_pairs(looked_at.on_cpu(), counts, calibration)
            columns = [entry.columns[0] if entry.columns else 0 for entry in entries]
            best = torch.tensor(columns, device=maps.unit.device)
            lonely = has_no_family(looked_at, best, maps, search.map_scorer, settings.family)
        refined = search.completed(looked_at.of_columns(best))
        with search.timed("judge"):
            firm = least_firmness(refined, maps) >= _FIRM * _least_firmness(settings)
            whole = looked_at.regular & lonely & refined.supported & refined.determined
            completed = CompletedPairs.of(maps, looked_at, look.matches, refined)
            complete = (whole.cpu() & firm).tolist()
        judgement = settings.judgement
        enough = judgement.clear if all_lines else judgement.longest_clear
        clear = [entry.assessment.is_clear(enough) for entry in entries]
        used = [
            entry if fine and sure and not _may_have_runner_ups(entry.assessment, judgement, infinite) else None
            for entry, fine, sure in zip(entries, complete, clear, strict=True)
        ]
        return _Round(list(rows), clear, used, completed)

    def _result(self, completed_round: _Round, row: int, counts: tuple[int, int]) -> RegistrationResult | None:
        """The result of a pair; None unless it is complete and a success."""
        entry, completed = completed_round.entries[row], completed_round.completed
        if entry is None:
            return None
        run, candidates, inliers = self._run, entry.assessment.candidates, completed.inliers[row]
        evidence = replace(candidates[0].evidence, inliers=len(inliers))
        calibrated = run.matcher.is_calibrated
        # Lines without ends need fewer inliers; a pair that lacks them here is registered by itself.
        verdict = judge(evidence, entry.assessment.weighing, (), run.settings.judgement, calibrated)
        if verdict.status is not Status.SUCCESS:
            return None
        position, direction = completed.noise[row]
        return RegistrationResult(
            status=verdict.status,
            reason=verdict.reason,
            target_T_source=_owned(completed.poses[row]),
            covariance=completed.covariance[row].clone(),
            confidence=verdict.confidence,
            calibrated=verdict.calibrated,
            evidence=evidence,
            matches=completed.matches[row, : completed.match_counts[row]].clone(),
            inliers=inliers.clone(),
            residuals=completed.residuals[row].clone(),
            alternatives=tuple(
                Alternative(_owned(completed.candidates[row][column]), other.probability, other.evidence, other.group)
                for column, other in zip(entry.columns[1:], candidates[1:], strict=True)
            ),
            score=evidence.score,
            noise=(position, direction),
            timings={},
            settings=run.settings.as_dict() | {"inlier_distance": completed.inlier_distances[row]},
            seed=run.seed,
            num_lines=counts,
            matcher=run.matcher.name,
            centre=completed.centre[row].clone(),
            group=candidates[0].group,
        )


def _may_have_runner_ups(assessment: Assessment, settings: JudgementSettings, infinite: bool) -> bool:
    """Whether other candidates are firm runner-ups, or might be found."""
    return bool(assessment.runner_ups(settings)) or assessment.may_hide_another(settings, infinite)


def _owned(pose: Pose) -> Pose:
    """A copy that keeps no other poses alive and is no inference tensor."""
    return Pose(pose.rotation.clone(), pose.translation.clone())


def _read(pair: Pair) -> LineSets | None:
    """The maps of a pair; None if they cannot be read, which is said when they are registered by themselves."""
    try:
        return as_lines(pair[0]), as_lines(pair[1])
    except InputError:
        return None


def _buckets(maps: Sequence[LineSets | None], settings: RegistrationSettings, few: int) -> list[list[int]]:
    """Rows of pairs of like size and kind; those that no batch can hold are in none.

    Pairs of at most ``few`` lines have no first look and are apart from the others.
    """
    buckets: dict[tuple[bool, int], list[int]] = {}
    for row, pair in enumerate(maps):
        if pair is not None and all(_is_batchable(lines, settings) for lines in pair):
            kinds = [lines.endpoints is not None for lines in pair]
            if kinds[0] == kinds[1]:
                largest = max(len(lines) for lines in pair)
                doublings = math.ceil(_SIZES_PER_DOUBLING * math.log2(largest / settings.first_lines))
                buckets.setdefault((kinds[0], max(0, doublings) if largest > few else -1), []).append(row)
    return list(buckets.values())


def _is_batchable(lines: LineSet, settings: RegistrationSettings) -> bool:
    """Whether this is one map of not too many lines, of whose noise nothing is known."""
    is_plain = lines.direction.ndim == 2 and lines.sigma is None and lines.mask is None
    return is_plain and MIN_LINES <= len(lines) <= settings.max_lines


def _is_covered(settings: RegistrationSettings) -> bool:
    """Whether the batched search is made for these settings."""
    known = (settings.up, settings.position_noise, settings.direction_noise, settings.refinement.up)
    return not settings.directed and all(value is None for value in known)


def _least_firmness(settings: RegistrationSettings) -> float:
    """Inliers that must resist every motion for it to be observable."""
    limits = settings.observability
    return max(limits.min_firmness, limits.min_rotation_firmness)
