"""Are the synthetic scenes as hard as the paper's? Its ICL baseline, run on ours, should fail as often and as far.

``python -m benchmarks.calibration`` registers pairs of held-out scenes under the paper's protocol, directions carried
over, with the ICL of its appendix, and compares quartiles of the errors and line counts with those published
(Table 1 and Sec. 4.1). Within 30 % is what is asked.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch

from benchmarks.harness import pose_error, progress, save
from plueckernet.data import PaperProtocol, make_scene, sample_pair
from plueckernet.errors import DegenerateError
from plueckernet.estimation.icl import icl

FIRST_SEED = 2_000_000  # held out: the scenes were designed on seeds below
PAIRS = 500  # a kind
COUNTED = 3000  # scenes a kind whose lines are counted; few large cells make a mean of 500 uncertain
TOLERANCE = 0.3
PAPER: dict[str, dict[str, Any]] = {
    "indoor": {
        "dataset": "Structured3D",
        "rotation_deg": [0.353, 0.520, 0.795],
        "translation_m": [0.030, 0.044, 0.078],
        "lines": {"mean": 306, "median": 312},
    },
    "outdoor": {
        "dataset": "Semantic3D",
        "rotation_deg": [0.803, 2.050, 5.239],
        "translation_m": [0.084, 0.226, 0.881],
        "lines": {"mean": 676, "median": 118},
    },
}


def one_pair(job: tuple[str, int]) -> tuple[float, float]:
    """Rotation and translation error of ICL on one pair; a pose it cannot give is infinitely wrong."""
    torch.set_num_threads(1)
    kind, seed = job
    pair = sample_pair(make_scene(kind, seed), PaperProtocol(), seed)
    try:
        found = icl(pair.source, pair.target).target_T_source
    except DegenerateError:
        found = None
    return pose_error(found, pair.target_T_source)


def compared(kind: str, errors: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    """Quartiles and line counts: ours, the paper's, and one as a multiple of the other."""
    paper = PAPER[kind]
    rows: dict[str, Any] = {}
    for column, name in enumerate(("rotation_deg", "translation_m")):
        ours = np.percentile(errors[:, column], [25, 50, 75])
        rows[name] = {
            "quartiles": ours.round(4).tolist(),
            "paper": paper[name],
            "ratio": (ours / paper[name]).round(3).tolist(),
        }
    ours = {"mean": round(float(counts.mean()), 1), "median": float(np.median(counts))}
    rows["lines"] = {**ours, "paper": paper["lines"], "scenes": len(counts)}
    return {"dataset": paper["dataset"], **rows}


def worst_ratio(result: dict[str, Any]) -> float:
    """The quartile furthest from the paper's."""
    ratios: list[float] = result["rotation_deg"]["ratio"] + result["translation_m"]["ratio"]
    return max(ratios, key=lambda ratio: abs(ratio - 1))


def table_row(kind: str, result: dict[str, Any]) -> dict[str, str]:
    """One row of the README's table."""
    return {
        "what": f"ICL of the paper on {kind} scenes against {result['dataset']}: furthest of six error quartiles",
        "asked": f"within {TOLERANCE:.0%}",
        "measured": f"{worst_ratio(result):.2f} times the paper's",
    }


def main() -> None:
    """Run, print, save."""
    results = {}
    for kind in PAPER:
        seeds = range(FIRST_SEED, FIRST_SEED + PAIRS)
        with ProcessPoolExecutor() as pool:
            running = [pool.submit(one_pair, (kind, seed)) for seed in seeds]
            errors = np.array([one.result() for one in progress(running, f"ICL, {kind}")])
        counted = progress(range(FIRST_SEED, FIRST_SEED + COUNTED), f"lines, {kind}")
        results[kind] = compared(kind, errors, np.array([len(make_scene(kind, seed)) for seed in counted]))
        print(kind, results[kind])
    save(
        "calibration",
        {
            "protocol": "paper, directed, keep 0.7; ICL of the paper's appendix from the identity",
            "pairs": PAIRS,
            "seeds": [FIRST_SEED, FIRST_SEED + PAIRS - 1],
            "tolerance": TOLERANCE,
            "within_tolerance": all(abs(worst_ratio(one) - 1) <= TOLERANCE for one in results.values()),
            **results,
            "table": [table_row(kind, result) for kind, result in results.items()],
        },
    )


if __name__ == "__main__":
    main()
