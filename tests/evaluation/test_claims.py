"""Every rule about a claim of the paper can hold and can fail."""

import math
from dataclasses import replace

import pytest
import torch

from plueckernet.evaluation import claims
from plueckernet.evaluation.claims import CHANCE, CLAIMS, claims_section, verdicts
from plueckernet.evaluation.experiments.matchability import MatchabilityValues
from plueckernet.evaluation.experiments.plan import CellsValues, Setting
from plueckernet.evaluation.experiments.recall import RecallCell, RecallValues
from plueckernet.evaluation.experiments.sweep import SweepValues
from plueckernet.evaluation.experiments.timing import TimingValues
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.summary import CellSummary
from plueckernet.geometry.pose import rotation_exp

SETS = ("indoor", "outdoor", "street")
SETTING = Setting(dict.fromkeys(SETS, 300), dict.fromkeys(SETS, ""), dict.fromkeys(SETS, ()))


def cell(success: float = 0.9, rotation: float = 1.0, translation: float = 0.1, area: float = 0.8) -> CellSummary:
    rate = Rate(round(300 * success), 300)
    turns, shifts = ((0.5 * median, median, 1.5 * median) for median in (rotation, translation))
    return CellSummary(300, 0, 0, turns, shifts, rate, rate, None, area, area, None, None, 100.0, {})


def recall(**levels: float) -> RecallValues:
    """Flat curves by role, the same for all datasets."""
    cells = {
        role.replace("_", "-"): RecallCell(
            {"rotation": (0.0, level), "translation": (0.0, level)}, cell(level, area=level)
        )
        for role, level in levels.items()
    }
    thresholds = {"rotation": (0.0, 5.0), "translation": (0.0, 0.5)}
    return RecallValues(SETTING, thresholds, dict.fromkeys(SETS, cells))


def sweep(values: tuple[float, ...], **cells: tuple[CellSummary, ...]) -> SweepValues:
    return SweepValues(SETTING, "", values, tuple(map(str, values)), dict.fromkeys(SETS[:2], cells))


def regression(rotation: float, translation: float) -> CellsValues:
    return CellsValues(SETTING, {key: {"regression": cell(0.0, rotation, translation)} for key in SETS})


def matchability(good: int) -> MatchabilityValues:
    scenes = ((2.0, 1.0),) * good + ((1.0, 2.0),) * (100 - good)
    return MatchabilityValues(SETTING, {key: {"pluecker": scenes} for key in SETS[:2]})


def timing(pose: float) -> TimingValues:
    stages = {"features": 0.1, "matching": 0.1, "pose": pose}
    return TimingValues(SETTING, "cpu", 1, {key: {"pluecker": stages} for key in SETS[:2]})


OVERLAPS = (0.1, 0.2, 1.0)
NOISES = (0.0, 2.0, 5.0, 10.0)
CASES = {  # by words of the claim: values under which it is held, and refuted
    "higher recall than ICL and regression": (
        recall(pluecker=0.9, icl=0.7, regression=0.2),
        recall(pluecker=0.7, icl=0.9, regression=0.2),
    ),
    "ICL is better than regression": (recall(icl=0.7, regression=0.2), recall(icl=0.2, regression=0.7)),
    "converge indoors": (regression(3.6, 0.2), regression(21.0, 1.9)),
    "diverges outdoors": (regression(21.0, 1.9), regression(3.6, 0.2)),
    "overlap from 0.2 to 1": (
        sweep(OVERLAPS, pluecker=(cell(rotation=9.0), cell(rotation=0.5), cell()), icl=(cell(),) * 3),
        sweep(OVERLAPS, pluecker=(cell(), cell(rotation=0.5), cell(rotation=1.5)), icl=(cell(),) * 3),
    ),
    "Below an overlap": (
        sweep(OVERLAPS, pluecker=(cell(0.1), cell(1.0), cell(1.0)), icl=(cell(0.0), cell(0.5), cell(1.0))),
        sweep(OVERLAPS, pluecker=(cell(0.8), cell(1.0), cell(1.0)), icl=(cell(0.0), cell(0.5), cell(1.0))),
    ),
    "Indoors, PlückerNet trained outdoors": (
        recall(pluecker=0.9, pluecker_cross=0.89, icl=0.7),
        recall(pluecker=0.9, pluecker_cross=0.6, icl=0.5),
    ),
    "Outdoors, PlückerNet trained indoors": (
        recall(pluecker=0.9, pluecker_cross=0.7, icl=0.68),
        recall(pluecker=0.95, pluecker_cross=0.85, icl=0.5),  # much better than ICL is not comparable to it
    ),
    "consecutive frames": (recall(pluecker=0.9, icl=0.7), recall(pluecker=0.7, icl=0.9)),
    "spent on RANSAC": (timing(0.5), timing(0.1)),
    "almost all scenes": (matchability(98), matchability(80)),
    "indoors: rotation like": (
        sweep(NOISES, pluecker=(cell(), *[cell(1, 1.1, 0.05)] * 3), icl=(cell(),) * 4),
        sweep(NOISES, pluecker=(cell(), *[cell(1, 0.5, 0.05)] * 3), icl=(cell(),) * 4),
    ),
    "outdoors: better than ICL": (
        sweep(NOISES, pluecker=(cell(), *[cell(1, 0.5, 0.05)] * 3), icl=(cell(),) * 4),
        sweep(NOISES, pluecker=(cell(), *[cell(1, 1.4, 0.05)] * 3), icl=(cell(),) * 4),
    ),
}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.text)
def test_each_claim_can_be_held_and_refuted(claim):
    supporting, contradicting = next(values for words, values in CASES.items() if words in claim.text)
    assert claim.judge(supporting).outcome == "held"
    assert claim.judge(contradicting).outcome == "refuted"


@pytest.mark.parametrize("words", ["higher recall", "consecutive frames", "overlap from"])
def test_what_is_within_two_sigma_is_not_decided(words):
    claim = next(claim for claim in CLAIMS if words in claim.text)
    level = cell(0.8)
    values = (
        sweep(OVERLAPS, pluecker=(level,) * 3, icl=(level,) * 3)
        if "overlap" in words
        else recall(pluecker=0.8, icl=0.79, regression=0.79)
    )
    assert claim.judge(values).outcome == "not decided"


def test_the_section_counts_outcomes_and_names_what_was_not_measured():
    documents = {"recall": recall(pluecker=0.9, icl=0.7, regression=0.2)}
    outcomes = [verdict.outcome for _, verdict in verdicts(documents)]
    assert (outcomes.count("held"), outcomes.count("not measured")) == (4, len(CLAIMS) - 4)
    text = claims_section(documents)
    assert f"Of {len(CLAIMS)} claims of the paper" in text
    assert f"4 held, {len(CLAIMS) - 4} not measured" in text
    assert claims_section({}) == ""


def test_chance_is_what_the_mean_pose_of_the_protocol_gives():
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(20000, 3, generator=generator, dtype=torch.float64) * math.pi / 4

    def turned(angles: torch.Tensor) -> torch.Tensor:
        x, y, z = rotation_exp(torch.diag_embed(angles)).unbind(-3)
        return z @ y @ x

    mean = turned(torch.full((3,), math.pi / 8, dtype=torch.float64))
    cosine = ((turned(angles) @ mean.mT).diagonal(dim1=-2, dim2=-1).sum(-1) - 1) / 2
    assert float(cosine.acos().rad2deg().median()) == pytest.approx(CHANCE["rotation"], rel=0.02)
    shift = (4 * torch.rand(20000, 3, generator=generator) - 2).norm(dim=-1).median()
    assert float(shift) == pytest.approx(CHANCE["translation"], rel=0.02)


def test_a_sweep_that_recorded_pairs_cannot_show_is_not_measured():
    claim = next(claim for claim in CLAIMS if "overlap from" in claim.text)
    values = sweep(OVERLAPS, pluecker=(cell(),) * 3, icl=(cell(),) * 3)
    hidden = {name: dict.fromkeys(("pluecker", "icl"), (None,) * 3) for name in SETS[:2]}
    assert claim.judge(replace(values, cells=hidden)) == claims._MISSING
