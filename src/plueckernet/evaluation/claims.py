"""Every claim that the paper makes about its method, and whether the measurements here bear it.

Each claim has a rule that can fail in either direction. Rates differ if they do by more than two sigma.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from plueckernet.evaluation.experiments.ablations import AblationValues, component_claims
from plueckernet.evaluation.experiments.matchability import MatchabilityValues
from plueckernet.evaluation.experiments.plan import ROLES, CellsValues
from plueckernet.evaluation.experiments.recall import RecallValues
from plueckernet.evaluation.experiments.sweep import SweepValues
from plueckernet.evaluation.experiments.timing import TimingValues
from plueckernet.evaluation.rates import Rate, percent
from plueckernet.evaluation.tables import Table, number
from plueckernet.evaluation.verdict import OUTCOMES, sigma

# Medians of an estimator that answers the mean pose of the protocol whatever it is shown: 22.5° about each axis.
CHANCE = {"rotation": 21.6, "translation": 1.97}  # degrees, m
_CONVERGED, _AT_CHANCE = 0.5, 0.9  # of these errors, at most and at least
_SIMILAR = 0.05  # of a recall: differences that are called similar
_COMPARABLE = 0.1  # of a recall: differences that are called comparable
_ALMOST_ALL = 0.95  # of the scenes
_SIMILAR_RATIO = 1.25  # of medians that are called similar
_QUANTITIES = ("rotation", "translation")


@dataclass(frozen=True)
class Verdict:
    """What the measurements say about a claim."""

    outcome: str  # of :data:`plueckernet.evaluation.verdict.OUTCOMES`
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the experiment that tests it, and the rule."""

    text: str
    where: str  # in the paper
    experiment: str
    judge: Callable[[Any], Verdict]


def verdicts(documents: Mapping[str, Any]) -> list[tuple[Claim, Verdict]]:
    """All claims, those about components of the network last; what has not been measured says so."""
    made = [
        (claim, claim.judge(documents[claim.experiment]) if claim.experiment in documents else _MISSING)
        for claim in CLAIMS
    ]
    values: AblationValues | None = documents.get("ablations")
    if values is not None:
        made += [
            (Claim(entry.claim, "Sec. 3.2, 3.3", "ablations", _no_judge), Verdict(entry.outcome, entry.evidence))
            for entry in component_claims(values)
        ]
    return made


def claims_section(documents: Mapping[str, Any]) -> str:
    """The table of all claims."""
    made = verdicts(documents)
    if all(verdict.outcome == "not measured" for _, verdict in made):
        return ""
    rows = [[claim.text, claim.where, verdict.outcome, verdict.evidence] for claim, verdict in made]
    counts = ", ".join(
        f"{count} {name}" for name in OUTCOMES if (count := sum(verdict.outcome == name for _, verdict in made))
    )
    about = (
        f"Of {len(made)} claims of the paper, measured with its own method trained here and on stand-ins for its data: "
        f"{counts}. Each rule can fail; rates differ if they do by more than two sigma. The paper's regression "
        f"outdoors errs by as much as an estimator that always answers the mean pose of the protocol "
        f"({CHANCE['rotation']}°, {CHANCE['translation']} m).\n"
    )
    table = Table("Claims of the paper", ["claim", "in the paper", "here", "measured"], rows)
    return "\n".join(["## Claims of the paper", "", about, table.markdown(), ""])


# Rules


def _recall_is_higher(values: RecallValues, dataset: str, role: str, other: str) -> Verdict:
    """Held if recall is higher at some threshold and lower at none, by two sigma; refuted if it is lower at one."""
    cells, count = values.cells[dataset], values.setting.pairs[dataset]
    gaps = [
        (quantity, threshold, mine, theirs, _deviations(mine, theirs, count))
        for quantity in _QUANTITIES
        for threshold, mine, theirs in zip(
            values.thresholds[quantity], cells[role].recall[quantity], cells[other].recall[quantity], strict=True
        )
    ]
    lowest, highest = min(gaps, key=lambda gap: gap[-1]), max(gaps, key=lambda gap: gap[-1])
    outcome = "refuted" if lowest[-1] < -2 else "held" if highest[-1] > 2 else "not decided"
    quantity, threshold, mine, theirs, _ = lowest if outcome == "refuted" else highest
    unit = "°" if quantity == "rotation" else " m"
    rates = f"{ROLES[role]} {percent(mine)}, {ROLES[other]} {percent(theirs)}"
    return Verdict(outcome, f"{quantity} below {threshold:g}{unit}: {rates} of {count}")


def _both_recalls(values: RecallValues, dataset: str, pairs: Iterable[tuple[str, str]]) -> Verdict:
    """All of several comparisons of recall."""
    return _worst([_recall_is_higher(values, dataset, role, other) for role, other in pairs])


def _worst(made: list[Verdict]) -> Verdict:
    order = {"refuted": 0, "not decided": 1, "held": 2}
    outcome = min((verdict.outcome for verdict in made), key=lambda name: order[name])
    return Verdict(outcome, "; ".join(verdict.evidence for verdict in made))


def _regression_converges(values: CellsValues, dataset: str, converges: bool) -> Verdict:
    """Medians against those of an estimator that ignores its input."""
    cell = values.cells[dataset]["regression"]
    ratios = [math.inf if (median := cell.median(name)) is None else median / CHANCE[name] for name in _QUANTITIES]
    converged, lost = max(ratios) < _CONVERGED, min(ratios) > _AT_CHANCE
    wanted, contrary = (converged, lost) if converges else (lost, converged)
    outcome = "held" if wanted else "refuted" if contrary else "not decided"
    medians = f"{number(cell.median('rotation'))}° / {number(cell.median('translation'))} m"
    return Verdict(outcome, f"medians {medians}, up to {max(ratios):.2f} of chance")


def _better_along(values: SweepValues, dataset: str, low: float, high: float) -> Verdict:
    """PlückerNet against ICL by success along a sweep: better somewhere and worse nowhere."""
    mine, theirs = (values.success(dataset, role) for role in ("pluecker", "icl"))
    inside = [value for value in mine if low <= value <= high]
    if not inside:
        return _MISSING
    gaps = {value: _deviations_of(mine[value], theirs[value]) for value in inside}
    worst, best = min(inside, key=lambda value: gaps[value]), max(inside, key=lambda value: gaps[value])
    outcome = "refuted" if gaps[worst] < -2 else "held" if gaps[best] > 2 else "not decided"
    shown = [worst] if worst == best else [worst, best]
    words = [f"at {value:g}: PlückerNet {mine[value].percent}, ICL {theirs[value].percent}" for value in shown]
    return Verdict(outcome, "; ".join(words))


def _fails_below(values: SweepValues, limit: float) -> Verdict:
    """Both methods are right for fewer than half of the pairs below the limit, on every dataset."""
    made = []
    for dataset in values.cells:
        for role in ("pluecker", "icl"):
            rates = [(value, rate) for value, rate in values.success(dataset, role).items() if value < limit]
            if not rates:
                continue
            value, rate = max(rates, key=lambda entry: entry[1].fraction)
            margin = 2 * sigma(rate.fraction, rate.total)
            low, high = rate.fraction - margin, rate.fraction + margin
            outcome = "refuted" if low > 0.5 else "held" if high < 0.5 else "not decided"
            made.append(Verdict(outcome, f"{dataset} at {value:g}: {ROLES[role]} {rate.percent}"))
    return _worst(made) if made else _MISSING


def _noise_medians(values: SweepValues, dataset: str, similar_rotation: bool) -> Verdict:
    """Median errors of PlückerNet over those of ICL at all noise up to the paper's maximum."""
    cells = values.cells[dataset]
    ratios: dict[str, list[float]] = {name: [] for name in _QUANTITIES}
    for value, mine, theirs in zip(values.values, cells["pluecker"], cells["icl"], strict=True):
        if not 0 < value <= 5 or mine is None or theirs is None:
            continue
        for name in _QUANTITIES:
            medians = mine.median(name), theirs.median(name)
            if medians[0] is not None and medians[1]:
                ratios[name].append(medians[0] / medians[1])
    if not all(ratios.values()):
        return _MISSING
    rotation, translation = ratios["rotation"], ratios["translation"]
    within = min(rotation) >= 1 / _SIMILAR_RATIO and max(rotation) <= _SIMILAR_RATIO
    fits = (within if similar_rotation else max(rotation) < 1) and max(translation) < 1
    words = ", ".join(f"{name} {min(row):.2f} to {max(row):.2f}" for name, row in ratios.items())
    return Verdict("held" if fits else "refuted", f"median over that of ICL: {words}")


def _generalises_indoor(values: RecallValues) -> Verdict:
    """As good as the network trained on this dataset, and better than ICL."""
    above = _recall_is_higher(values, "indoor", "pluecker-cross", "icl")
    return _worst([above, _recalls_are_close(values, "indoor", "pluecker-cross", "pluecker", _SIMILAR)])


def _generalises_outdoor(values: RecallValues) -> Verdict:
    """Worse than the network trained on this dataset, and neither better nor worse than ICL by much."""
    drop = _recall_is_higher(values, "outdoor", "pluecker", "pluecker-cross")
    return _worst([drop, _recalls_are_close(values, "outdoor", "pluecker-cross", "icl", _COMPARABLE)])


def _recalls_are_close(values: RecallValues, dataset: str, role: str, other: str, limit: float) -> Verdict:
    """Areas under the recall curves within a limit; refuted if they differ by more, with two sigma."""
    cells, count = values.cells[dataset], values.setting.pairs[dataset]
    areas = [(cells[role].summary.auc(name), cells[other].summary.auc(name), name) for name in _QUANTITIES]
    mine, theirs, quantity = max(areas, key=lambda area: abs(area[0] - area[1]))
    margin = 2 * math.hypot(sigma(mine, count), sigma(theirs, count))  # more than that of an area, which is smoother
    difference = abs(mine - theirs)
    outcome = "held" if difference <= limit else "refuted" if difference - margin > limit else "not decided"
    return Verdict(outcome, f"area of {quantity}: {ROLES[role]} {mine:.2f}, {ROLES[other]} {theirs:.2f}")


def _almost_all(values: MatchabilityValues) -> Verdict:
    """Lines with a match have the higher matchability in at least 95 % of the scenes of each dataset."""
    made = []
    for dataset, methods in values.scenes.items():
        rate = Rate.of([having > lacking for having, lacking in methods["pluecker"]])
        high = rate.fraction + 2 * sigma(rate.fraction, rate.total)
        outcome = "held" if rate.fraction >= _ALMOST_ALL else "refuted" if high < _ALMOST_ALL else "not decided"
        made.append(Verdict(outcome, f"{dataset}: {rate}"))
    return _worst(made) if made else _MISSING


def _pose_takes_longest(values: TimingValues) -> Verdict:
    """Pose estimation takes more than half of the time of PlückerNet; here its RANSAC is not a loop in Python."""
    made = []
    for dataset, methods in values.seconds.items():
        stages = methods["pluecker"]
        fraction = stages["pose"] / sum(stages.values())
        outcome = "held" if fraction > 0.5 else "refuted"
        made.append(Verdict(outcome, f"{dataset}: {100 * fraction:.0f} % of {sum(stages.values()):.2f} s"))
    return _worst(made)


def _deviations(mine: float, theirs: float, count: int) -> float:
    """The difference of two recalls in sigmas."""
    return (mine - theirs) / math.hypot(sigma(mine, count), sigma(theirs, count))


def _deviations_of(mine: Rate, theirs: Rate) -> float:
    spread = math.hypot(sigma(mine.fraction, mine.total), sigma(theirs.fraction, theirs.total))
    return (mine.fraction - theirs.fraction) / spread


def _no_judge(_values: Any) -> Verdict:
    return _MISSING


_MISSING = Verdict("not measured", "–")
_NETWORK, _BASELINES = "PlückerNet", ("icl", "regression")
CLAIMS = (
    *(
        Claim(
            f"{_NETWORK} has a higher recall than ICL and regression at each threshold, {dataset}",
            "Sec. 4.2, Table 1",
            "recall",
            partial(_both_recalls, dataset=dataset, pairs=[("pluecker", role) for role in _BASELINES]),
        )
        for dataset in ("indoor", "outdoor")
    ),
    *(
        Claim(
            f"ICL is better than regression, {dataset}",
            "Sec. 4.2",
            "recall",
            partial(_recall_is_higher, dataset=dataset, role="icl", other="regression"),
        )
        for dataset in ("indoor", "outdoor")
    ),
    Claim(
        "Regression can be trained to converge indoors",
        "Sec. 4.2",
        "table1",
        partial(_regression_converges, dataset="indoor", converges=True),
    ),
    Claim(
        "Regression diverges outdoors",
        "Sec. 4.2",
        "table1",
        partial(_regression_converges, dataset="outdoor", converges=False),
    ),
    *(
        Claim(
            f"{_NETWORK} is better than ICL at an overlap from 0.2 to 1, {dataset}",
            "Sec. 4.2",
            "overlap",
            partial(_better_along, dataset=dataset, low=0.2, high=1.0),
        )
        for dataset in ("indoor", "outdoor")
    ),
    Claim(
        f"Below an overlap of 0.2 neither {_NETWORK} nor ICL gives meaningful poses",
        "Sec. 4.2",
        "overlap",
        partial(_fails_below, limit=0.2),
    ),
    Claim(
        f"Indoors, {_NETWORK} trained outdoors is about as good and better than ICL",
        "Sec. 4.2",
        "generalisation",
        _generalises_indoor,
    ),
    Claim(
        f"Outdoors, {_NETWORK} trained indoors is worse and comparable to ICL",
        "Sec. 4.2",
        "generalisation",
        _generalises_outdoor,
    ),
    Claim(
        f"{_NETWORK} has a much higher recall than ICL on consecutive frames",
        "Sec. 4.2, Apollo",
        "odometry",
        partial(_recall_is_higher, dataset="street", role="pluecker", other="icl"),
    ),
    Claim("Most of the time is spent on RANSAC", "Sec. 4.2", "timing", _pose_takes_longest),
    Claim("Lines with a match are more matchable in almost all scenes", "appendix", "matchability", _almost_all),
    Claim(
        "Under noise, indoors: rotation like that of ICL, translation better",
        "appendix",
        "noise",
        partial(_noise_medians, dataset="indoor", similar_rotation=True),
    ),
    Claim(
        "Under noise, outdoors: better than ICL",
        "appendix",
        "noise",
        partial(_noise_medians, dataset="outdoor", similar_rotation=False),
    ),
)
