"""Calibrate the confidence: of registrations that say 0.9, nine in ten should be right.

``python -m benchmarks.confidence`` registers pairs from easy to hopeless and unrelated pairs, with the default matcher
and without any, fits the logistic models of ``plueckernet.estimation.judgement`` to half of them, and reports on the
other half how well they keep their word. The weights it prints are ``judgement.LEARNED`` and ``judgement.PLAIN``.
``--rows FILE`` keeps the evidence of each registration, and a second run fits to it without registering again.
"""

from __future__ import annotations

import argparse
import itertools
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from benchmarks.harness import best_error, progress, save, succeeded
from plueckernet.data.protocols import AnyProtocol, PairProtocol, ScanProtocol, sample_pair, unrelated_pair
from plueckernet.data.scenes import make_scene
from plueckernet.estimation.judgement import Evidence, features
from plueckernet.registration import register

FIRST_SEED = 4_000_000
PER_CELL = 30
KINDS = ("indoor", "outdoor", "varied")
MATCHERS = {"learned": "invariant", "plain": "descriptors"}
PROTOCOLS: list[PairProtocol | None] = [
    AnyProtocol(keep=0.7), AnyProtocol(keep=0.4), AnyProtocol(keep=0.25), AnyProtocol(keep=0.15),
    ScanProtocol(overlap=0.5), ScanProtocol(overlap=0.3), ScanProtocol(overlap=0.15), ScanProtocol(overlap=0.07),
    None, None, None, None,
]  # fmt: skip


def one_pair(job: tuple[str, str, int, int]) -> tuple[Evidence, bool]:
    """The evidence of one registration and whether its best pose is right."""
    torch.set_num_threads(1)
    matcher, kind, protocol_index, seed = job
    protocol = PROTOCOLS[protocol_index]
    if protocol is None:
        shown: PairProtocol = AnyProtocol() if seed % 2 else ScanProtocol()
        source, target = unrelated_pair(make_scene(kind, seed), make_scene(kind, seed + 500_000), shown, seed)
        return register(source, target, matcher=matcher).evidence, False
    pair = sample_pair(make_scene(kind, seed), protocol, seed)
    result = register(pair.source, pair.target, matcher=matcher)
    return result.evidence, succeeded(best_error(result, pair.target_T_source))


def fit(evidence: list[Evidence], right: np.ndarray) -> np.ndarray:
    """Logistic regression with a little shrinkage."""
    x = np.array([features(one) for one in evidence])

    def loss(weights: np.ndarray) -> float:
        logit = x @ weights
        return float(np.logaddexp(0, -np.where(right, logit, -logit)).sum() + 0.01 * weights @ weights)

    return minimize(loss, np.zeros(x.shape[1])).x


def reliability(confidence: np.ndarray, right: np.ndarray) -> list[dict[str, float]]:
    """Share of right results by said confidence."""
    rows = []
    for low, high in itertools.pairwise([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0001]):
        inside = (confidence >= low) & (confidence < high)
        if inside.any():
            rows.append({
                "from": low, "to": min(high, 1.0), "pairs": int(inside.sum()),
                "said": round(float(confidence[inside].mean()), 4), "right": round(float(right[inside].mean()), 4),
            })  # fmt: skip
    return rows


def calibrated(rows: list[tuple[Evidence, bool]]) -> dict[str, Any]:
    """The weights of one model, and how well the half that was not fitted bears them out."""
    evidence, right = [row[0] for row in rows], np.array([row[1] for row in rows])
    even = np.arange(len(rows)) % 2 == 0
    held_out = fit([e for e, keep in zip(evidence, even, strict=True) if keep], right[even])
    x = np.array([features(one) for one in evidence])
    said = 1 / (1 + np.exp(-(x @ held_out)))
    return {
        "weights": [round(float(w), 3) for w in fit(evidence, right)],
        "pairs": len(rows),
        "right": int(right.sum()),
        "reliability_on_held_out_half": reliability(said[~even], right[~even]),
        "brier_on_held_out_half": round(float(((said - right)[~even] ** 2).mean()), 4),
    }


def registered(matcher: str) -> list[tuple[Evidence, bool]]:
    """All pairs with one matcher."""
    jobs = [
        (matcher, kind, index, FIRST_SEED + 1000 * index + i)
        for i in range(PER_CELL)
        for index in range(len(PROTOCOLS))
        for kind in KINDS
    ]
    with ProcessPoolExecutor() as pool:
        return list(progress(pool.map(one_pair, jobs, chunksize=4), f"confidence, {matcher}", len(jobs)))


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, help="where to keep the evidence")
    kept = parser.parse_args().rows
    if kept is not None and kept.exists():
        entries = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    else:
        entries = [
            {"model": name, "evidence": asdict(evidence), "right": right}
            for name, matcher in MATCHERS.items()
            for evidence, right in registered(matcher)
        ]
    if kept is not None:
        kept.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    values: dict[str, Any] = {}
    for name in MATCHERS:
        rows = [(Evidence(**entry["evidence"]), entry["right"]) for entry in entries if entry["model"] == name]
        values[name] = calibrated([row for row in rows if row[0].inliers])
        print(name, "weights", values[name]["weights"], "brier", values[name]["brier_on_held_out_half"])
        for row in values[name]["reliability_on_held_out_half"]:
            print(row)
    save("confidence", values)


if __name__ == "__main__":
    main()
