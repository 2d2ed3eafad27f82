"""Which settings matter: each is varied by -50 % and +50 %, one at a time.

``python -m benchmarks.sensitivity_extraction`` and ``python -m benchmarks.sensitivity_registration`` run the studies
and write ``results/sensitivity_*.json``. With ``--keep FILE`` a study that was interrupted goes on where it was.

A setting matters if one of its variations changes one metric by more than `MIN_CHANGE` and by more than `NOISE_FACTOR`
times the largest change of this metric among the seeds of the default settings. It does not matter if no metric changes
by more than `MIN_CHANGE`. Otherwise its effect is within noise: the study cannot tell.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import progress
from plueckernet.errors import InputError
from plueckernet.evaluation.provenance import weights_hash
from plueckernet.evaluation.sources import source_hash
from plueckernet.io.atomic import atomic_write

FACTORS = (0.5, 1.5)
SEEDS = 5  # of the default settings, which show the change that chance makes
MIN_CHANGE = 0.01
NOISE_FACTOR = 2.0

Metrics = dict[str, float]


@dataclass(frozen=True)
class Study:
    """Settings whose fields are varied, and a measurement of their effect.

    Attributes:
        settings: A frozen dataclass, which may contain others.
        measure: Metrics of settings, each in [0, 1].
        reseeded: The settings with another seed.
        skipped: Dotted names of fields that are not varied, with the reason.
        min_change: Of a metric, for a setting to matter.
        weights: Names of those that the measurement uses.
    """

    settings: Any
    measure: Callable[[Any], Metrics]
    reseeded: Callable[[Any, int], Any]
    skipped: dict[str, str]
    min_change: float = MIN_CHANGE
    weights: tuple[str, ...] = ()


def variations(settings: Any, factors: tuple[float, ...] = FACTORS) -> Iterator[tuple[str, float, Any]]:
    """Dotted name, value and settings for each numeric field times each factor.

    Integers are rounded. A value above 1 of a field that has to be a fraction becomes 1. Other values that the settings
    do not allow are left out.
    """
    for name, value in ((each.name, getattr(settings, each.name)) for each in fields(settings)):
        if is_dataclass(value):
            for inner, number, changed in variations(value, factors):
                yield f"{name}.{inner}", number, replace(settings, **{name: changed})
        elif isinstance(value, tuple):
            for place, number in enumerate(value):
                for varied in _values(number, factors):
                    changed = (*value[:place], varied, *value[place + 1 :])
                    yield from _allowed(settings, name, f"{name}.{place}", varied, changed)
        else:
            for varied in _values(value, factors):
                yield from _allowed(settings, name, name, varied, varied)


def _values(value: object, factors: tuple[float, ...]) -> list[int | float]:
    """The number times the factors; nothing for what is no number, or where rounding changes nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    scaled = [round(value * factor) if isinstance(value, int) else value * factor for factor in factors]
    return [number for number in scaled if number != value]


def _allowed(settings: Any, name: str, label: str, varied: float, value: Any) -> Iterator[tuple[str, float, Any]]:
    limited = [1.0] if isinstance(value, float) and value > 1 else []
    for allowed in (value, *limited):
        with suppress(InputError):
            changed = replace(settings, **{name: allowed})
            yield label, 1.0 if allowed in limited else varied, changed
            return


def run_study(study: Study, label: str, keep: Path | None = None) -> dict[str, Any]:
    """Measure all variations; the document of ``results/sensitivity_*.json``.

    What is measured is added to the file ``keep`` at once. Of what is there already, measurements of the same sources
    and settings are used again.
    """
    varied = [each for each in variations(study.settings) if each[0] not in study.skipped]
    reseeded = [study.reseeded(study.settings, seed) for seed in range(1, SEEDS)]
    tasks = [study.settings, *reseeded, *(settings for _, _, settings in varied)]
    results = _measured(study, tasks, label, keep)
    default = results[0]
    noise = {metric: max(abs(result[metric] - default[metric]) for result in results[1:SEEDS]) for metric in default}
    rows: dict[str, dict[str, Any]] = {}
    for (name, value, _), result in zip(varied, results[SEEDS:], strict=True):
        row = rows.setdefault(name, {"default": _value(study.settings, name), "values": [], "changes": []})
        row["values"].append(value)
        row["changes"].append({metric: round(result[metric] - default[metric], 4) for metric in default})
    judged = {name: row | _verdict(row["changes"], noise, study.min_change) for name, row in rows.items()}
    print("\n".join(table(judged)))
    rule = {"min_change": study.min_change, "noise_factor": NOISE_FACTOR, "seeds": SEEDS}
    return {"rule": rule, "default": default, "noise": noise, "fields": judged, "skipped": study.skipped}


def kept_file() -> Path | None:
    """The file of ``--keep`` on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=Path, metavar="FILE", help="measurements, to go on after an interruption")
    keep: Path | None = parser.parse_args().keep
    return keep


def _measured(study: Study, tasks: Sequence[Any], label: str, keep: Path | None) -> list[Metrics]:
    """The metrics of all settings, in their order."""
    basis = _basis(study)
    keys = [hashlib.sha256(f"{basis} {settings!r}".encode()).hexdigest()[:16] for settings in tasks]
    known = _kept(keep)
    left = {key: settings for key, settings in zip(keys, tasks, strict=True) if key not in known}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        pending = {pool.submit(study.measure, settings): key for key, settings in left.items()}
        for done in progress(as_completed(pending), label, len(pending)):
            known[pending[done]] = done.result()
            if keep is not None:
                with keep.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps({"key": pending[done], "metrics": done.result()}) + "\n")
    return [known[key] for key in keys]


def _basis(study: Study) -> str:
    """What measurements depend on beside the settings: sources and weights."""
    sources = source_hash(f"benchmarks.{Path(inspect.getfile(study.measure)).stem}")
    return " ".join([sources, *map(weights_hash, study.weights)])


def _kept(keep: Path | None) -> dict[str, Metrics]:
    """Metrics by key; half a line that an interruption left does not count, and is removed."""
    if keep is None or not keep.exists():
        return {}
    text = keep.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        with atomic_write(keep) as stream:
            stream.write(whole)
    rows = [json.loads(line) for line in whole.splitlines()]
    return {row["key"]: row["metrics"] for row in rows}


def _value(settings: Any, label: str) -> float:
    """The value of a field by its dotted name; a number names an element of a tuple."""
    for name in label.split("."):
        settings = settings[int(name)] if name.isdigit() else getattr(settings, name)
    return float(settings)


def _verdict(changes: list[Metrics], noise: Metrics, min_change: float) -> dict[str, Any]:
    """Whether a setting matters, and the metric that changes most relative to its limit."""
    limits = {metric: max(min_change, NOISE_FACTOR * value) for metric, value in noise.items()}
    ratios = {metric: max(abs(change[metric]) / limits[metric] for change in changes) for metric in noise}
    most = max(ratios, key=lambda metric: ratios[metric])
    largest = max((change[most] for change in changes), key=abs)
    resolved = max(abs(value) for change in changes for value in change.values()) <= min_change
    verdict = "matters" if ratios[most] > 1 else "does not matter" if resolved else "within noise"
    return {"verdict": verdict, "most": most, "largest_change": largest, "ratio_to_limit": round(ratios[most], 2)}


def table(rows: dict[str, dict[str, Any]]) -> list[str]:
    """The result as Markdown, the settings that matter most first."""
    lines = ["| setting | default | tried | largest change | verdict |", "|---|---|---|---|---|"]
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["ratio_to_limit"]):
        values = ", ".join(f"{value:g}" for value in row["values"])
        change = f"{100 * row['largest_change']:+.1f} points, {row['most']}"
        lines.append(f"| `{name}` | {row['default']:g} | {values} | {change} | {row['verdict']} |")
    return lines
