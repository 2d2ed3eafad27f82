"""The two maps of `plueckernet demo`: one house, scanned twice.

``python -m benchmarks.demo_maps`` writes them to the package. About two thirds of their lines are in common; the
rest was seen by one scan only, or by none.
"""

from __future__ import annotations

import json
from pathlib import Path

import plueckernet
from plueckernet.cli.demo import FRIDAY, MONDAY, TRUTH
from plueckernet.data import LinePair, ScanProtocol, make_scene, sample_pair
from plueckernet.geometry import LineSet
from plueckernet.io import write_lines

SCENE, SEED = "indoor", 2
FOLDER = Path(plueckernet.__file__).parent / "demo"


def demo_pair() -> LinePair:
    """The pair, its coordinates rounded to a tenth of a millimetre."""
    pair = sample_pair(make_scene(SCENE, SEED), ScanProtocol(overlap=0.65), SEED)
    return LinePair(_rounded(pair.source), _rounded(pair.target), pair.target_T_source, pair.matches)


def write(folder: Path) -> None:
    """Both maps in two formats, and the truth beside them."""
    pair = demo_pair()
    folder.mkdir(exist_ok=True)
    write_lines(folder / MONDAY, pair.source)
    write_lines(folder / FRIDAY, pair.target)
    truth = {"target_T_source": pair.target_T_source.matrix().tolist(), "common": round(pair.common, 3)}
    (folder / TRUTH).write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")


def _rounded(lines: LineSet) -> LineSet:
    if lines.endpoints is None:
        raise ValueError("a scan has segments")
    return LineSet.from_segments(lines.endpoints.round(decimals=4))


if __name__ == "__main__":
    write(FOLDER)
