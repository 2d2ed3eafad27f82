"""Which settings of ``register()`` matter: see :mod:`benchmarks.sensitivity`.

``python -m benchmarks.sensitivity_registration`` writes ``results/sensitivity_registration.json``.

The pairs are synthetic, from hard to easy, and none of them is used elsewhere: random parts, scans with little overlap,
maps of different density, and unrelated maps. They are drawn once and kept by each process.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

import torch

from benchmarks.harness import save
from benchmarks.sensitivity import Study, kept_file, run_study
from plueckernet.data.protocols import AnyProtocol, LinePair, ScanProtocol, sample_pair, unrelated_pair
from plueckernet.data.scenes import make_scene
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.evaluation.metrics import pose_error
from plueckernet.evaluation.outcomes import STRICT, is_right
from plueckernet.evaluation.paper_noise import best_pose
from plueckernet.geometry import LineSet, Pose
from plueckernet.registration import register

FIRST_SEED = 8_400_000
MIN_CHANGE = 0.02  # two of the 96 pairs
KINDS = ("indoor", "outdoor", "varied")
PAIRS_PER_CELL = 8
CHI_SQUARE_95 = 12.59  # of six degrees of freedom
CELLS = {
    "keep 30 %": AnyProtocol(keep=0.3),
    "keep 30 % of infinite lines": AnyProtocol(keep=0.3, segments=False),
    "scans, 30 %": ScanProtocol(overlap=0.3),
    "scans, 12 %": ScanProtocol(overlap=0.12),
}


@dataclass(frozen=True)
class SeededSettings:
    """Settings of register() with the seed of its draws."""

    registration: RegistrationSettings = field(default_factory=RegistrationSettings)
    seed: int = 0


@cache
def pairs() -> list[LinePair]:
    """All related pairs, the same in every process."""
    return [
        sample_pair(_thinned(make_scene(kind, seed), seed), protocol, seed)
        for cell, protocol in enumerate(CELLS.values())
        for kind in KINDS
        for seed in range(FIRST_SEED + 100 * cell, FIRST_SEED + 100 * cell + PAIRS_PER_CELL)
    ]


@cache
def unrelated() -> list[tuple[LineSet, LineSet]]:
    """Maps of different places."""
    seeds = range(FIRST_SEED + 1000, FIRST_SEED + 1000 + 2 * PAIRS_PER_CELL)
    return [
        unrelated_pair(make_scene("varied", seed), make_scene("varied", seed + 500), ScanProtocol(), seed)
        for seed in seeds
    ]


def measure(settings: SeededSettings) -> dict[str, float]:
    """Fractions of pairs that are right, accurate, accepted, covered by their covariance, and wrongly accepted."""
    torch.set_num_threads(1)
    results = [
        register(pair.source, pair.target, settings=settings.registration, seed=settings.seed) for pair in pairs()
    ]
    poses = [best_pose(result) for result in results]
    errors = [pose_error(pose, pair.target_T_source) for pose, pair in zip(poses, pairs(), strict=True)]
    right = [is_right(error) for error in errors]
    accepted = [result.ok for result in results]
    chi_squares = [
        _chi_square(result.covariance, result.target_T_source, pair.target_T_source)
        for result, pair, is_right in zip(results, pairs(), right, strict=True)
        if result.ok and is_right
    ]
    false = [register(*maps, settings=settings.registration, seed=settings.seed).ok for maps in unrelated()]
    count = len(results)
    return {
        "right": sum(right) / count,
        "right within 1° and 0.1 m": sum(is_right(error, STRICT) for error in errors) / count,
        "right and accepted": sum(a and r for a, r in zip(accepted, right, strict=True)) / count,
        "error within the 95 % bound of the covariance": _mean([value < CHI_SQUARE_95 for value in chi_squares]),
        "wrong and accepted": (sum(a and not r for a, r in zip(accepted, right, strict=True)) + sum(false))
        / (count + len(false)),
    }


def reseeded(settings: SeededSettings, seed: int) -> SeededSettings:
    """The settings with another seed."""
    return replace(settings, seed=seed)


def _thinned(scene: LineSet, seed: int) -> LineSet:
    """At most 500 lines, so that the study ends."""
    order = torch.randperm(len(scene), generator=torch.Generator().manual_seed(seed))
    return scene[order[:500]]


def _chi_square(covariance: torch.Tensor | None, pose: Pose | None, truth: Pose) -> float:
    if covariance is None or pose is None:
        return float("inf")
    xi = (truth @ pose.inverse()).log()
    return float(xi @ torch.linalg.solve(covariance, xi))


def _mean(values: list[bool]) -> float:
    return sum(values) / max(1, len(values))


STUDY = Study(
    SeededSettings(),
    measure,
    reseeded,
    {"seed": "measured as noise", "registration.max_lines": "bounds the time; the maps of the study are smaller"},
    MIN_CHANGE,
    ("invariant",),
)

if __name__ == "__main__":
    save("sensitivity_registration", run_study(STUDY, "registration", kept_file()), weights=STUDY.weights)
