"""Align many maps: :func:`align` is the method on one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.judgement import Status
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet
from plueckernet.matchers import MatcherSource, load_matcher
from plueckernet.merging.alignment import Alignment, assemble_alignment
from plueckernet.merging.candidates import RetrievalSettings, further_pairs
from plueckernet.merging.cycles import cycle_evidence, short_cycles
from plueckernet.merging.edges import MapEdge
from plueckernet.merging.grouping import MapGroup, map_groups
from plueckernet.merging.heap import MapHeap, MapsLike
from plueckernet.merging.hypothesis_table import AgreementSettings, HypothesisTable
from plueckernet.merging.pair_store import PairStore, RegisterPairs, registered_edges
from plueckernet.registration import register_many
from plueckernet.result import RegistrationResult
from plueckernet.retrieval import candidate_pairs, overlap_scores
from plueckernet.settings import check_fraction
from plueckernet.version import __version__

PAIRS_FOLDER = "pairs"


@dataclass(frozen=True)
class AlignSettings:
    """How many maps are aligned."""

    min_confidence: float = 0.9  # that two groups of maps are joined rightly
    scale: Literal["unknown"] | tuple[float, float] | None = None  # as in `register`; None: all maps have one unit
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    agreement: AgreementSettings = field(default_factory=AgreementSettings)
    registration: RegistrationSettings = field(default_factory=RegistrationSettings)

    def __post_init__(self) -> None:
        check_fraction(self, "min_confidence")


def align(
    maps: MapsLike,
    *,
    folder: str | Path | None = None,
    matcher: MatcherSource = "invariant",
    settings: AlignSettings = AlignSettings(),
    seed: int = 0,
    register_pairs: RegisterPairs | None = None,
    on_pair: Callable[[int, int], None] | None = None,
) -> Alignment:
    """Find which of many maps show the same place, and their poses in one frame for each place.

    The maps are unordered: files, line sets or arrays, in a list or by name. Maps that share nothing stay in different
    groups. A registration that the others contradict is rejected; one that is ambiguous is decided by the others.
    With a ``folder`` the registrations are kept there, and an interrupted alignment goes on. ``register_pairs`` can
    register pairs elsewhere, such as on a cluster. ``on_pair`` is called with the number of pairs done and of those
    that are known to be needed, which grows from round to round.
    """
    heap = MapHeap.of(maps, settings.scale is None)
    scores = overlap_scores(heap.lines)
    made_with = f"{__version__} {load_matcher(matcher).name} {settings.registration} {settings.scale} {seed}"
    store = PairStore(None if folder is None else Path(folder) / PAIRS_FOLDER, heap.lines, made_with)
    register_pairs = register_pairs or partial(_register_pairs, matcher=matcher, settings=settings, seed=seed)
    edges: list[MapEdge] = []
    groups: list[MapGroup] = []
    pairs = candidate_pairs(scores, settings.retrieval.candidates)
    for _ in range(1 + settings.retrieval.rounds):
        total = len(edges) + len(pairs)
        for edge in registered_edges(heap.lines, pairs, store, register_pairs):
            edges.append(edge)
            if on_pair is not None:
                on_pair(len(edges), total)
        before = {frozenset(group.poses) for group in groups}
        table, probability, groups = grouped(heap, edges, settings)
        changed = [group for group in map(frozenset, (group.poses for group in groups)) if group not in before]
        tried = {(min(edge.source, edge.target), max(edge.source, edge.target)) for edge in edges}
        pairs = further_pairs(scores, changed, tried, settings.retrieval, contested_maps(edges, table, groups))
        if len(groups) == 1 or not pairs:
            break
    return assemble_alignment(heap, edges, table, probability, groups)


def contested_maps(edges: Sequence[MapEdge], table: HypothesisTable, groups: Sequence[MapGroup]) -> set[int]:
    """Maps of edges that are a success by their registration and yet not accepted."""
    accepted = {int(table.edge[row]) for group in groups for row in group.rows}
    rejected = [edge for row, edge in enumerate(edges) if edge.status is Status.SUCCESS and row not in accepted]
    return {end for edge in rejected for end in (edge.source, edge.target)}


def grouped(
    heap: MapHeap, edges: Sequence[MapEdge], settings: AlignSettings
) -> tuple[HypothesisTable, Float[Tensor, " h"], list[MapGroup]]:
    """Hypotheses, their probabilities given all cycles, and the groups that follow."""
    table = HypothesisTable.of(edges, heap.radius, settings.scale is None, settings.agreement)
    evidence = cycle_evidence(table, short_cycles(table, edges))
    weights = [len(lines) for lines in heap.lines]
    return table, evidence.probability, map_groups(table, evidence, weights, settings.min_confidence)


def _register_pairs(
    pairs: Sequence[tuple[LineSet, LineSet]], matcher: MatcherSource, settings: AlignSettings, seed: int
) -> Iterator[RegistrationResult]:
    return register_many(pairs, matcher=matcher, settings=settings.registration, seed=seed, scale=settings.scale)
