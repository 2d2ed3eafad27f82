"""All benchmarks of the CPU, one after the other, and the pages made from them: ``python -m benchmarks``.

Predictions are kept in build/predictions, so that an interrupted run goes on. Real maps do not come with the package:
``--real FOLDER`` names one with line3dpp/ and cityjson/.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks import estimation, extraction, pages, speed
from benchmarks.harness import RESULTS
from plueckernet.evaluation.confidence import evaluate_confidence
from plueckernet.evaluation.documents import write_result
from plueckernet.evaluation.invariance import evaluate_invariance
from plueckernet.evaluation.runner import Runner, RunSettings
from plueckernet.evaluation.synthetic import PAIRS, evaluate_synthetic

PAIRS_OF = {"invariant": PAIRS, "pluecker-indoor": PAIRS, "pluecker-outdoor": PAIRS, "descriptors": 200}
CALIBRATED = ("pluecker-indoor", "pluecker-outdoor")  # the others are fitted to real maps, too, which are not here


def evaluate(real: Path | None) -> None:
    """What the package measures itself, as ``plueckernet evaluate`` does."""
    torch.set_num_threads(1)
    with Runner(RunSettings(pages.ROOT / "build" / "predictions", workers=os.cpu_count() or 1)) as runner:
        for matcher, pairs in PAIRS_OF.items():
            document = evaluate_synthetic(matcher, runner, pairs)
            write_result(RESULTS / f"{document.name}.json", document)
        for matcher in CALIBRATED:
            calibration = evaluate_confidence(matcher, runner)
            write_result(RESULTS / f"{calibration.name}.json", calibration)
    if real is not None:
        invariance = evaluate_invariance(real)
        write_result(RESULTS / f"{invariance.name}.json", invariance)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, help="folder with line3dpp/ and cityjson/")
    options = parser.parse_args()
    evaluate(options.real)
    estimation.measure(list(estimation.PARTS))
    extraction.main()
    subprocess.run([sys.executable, "-m", "benchmarks.networks", "--threads", "1"], check=True)
    speed.main()
    subprocess.run([sys.executable, "-m", "benchmarks.cold_start"], check=True)
    pages.write()
