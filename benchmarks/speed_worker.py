"""Times pairs for :mod:`benchmarks.speed`, with the sources on the path: those of an earlier version, too."""

from __future__ import annotations

import json
import resource
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plueckernet import LineSet, register

_MATCHES = 200  # from which the published loop draws


def main() -> None:
    """Read paths of pairs, print what each took."""
    torch.set_num_threads(1)
    call = {"register": _registered, "published": _published}[sys.argv[1]]
    for line in sys.stdin:
        pair = _read(Path(line.rstrip("\n")))
        start = time.process_time()
        told = call(*pair)
        told["cpu_seconds"] = time.process_time() - start
        told["peak_gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        print(json.dumps(told), flush=True)


def _registered(source: LineSet, target: LineSet) -> dict[str, Any]:
    result = register(source, target)
    return {"accepted": str(result.status) == "success", "timings": result.timings}


def _published(source: LineSet, target: LineSet) -> dict[str, Any]:
    """PlückerNet as its paper prints it; the weights do not change how long it takes."""
    from benchmarks.estimation import plain_ransac
    from benchmarks.plain_pluecker import plain_pluecker

    with torch.no_grad():
        batch = [LineSet(lines.direction[None], lines.moment[None]) for lines in (source, target)]
        weights = plain_pluecker(_network(), *batch)[0]
    best = weights.flatten().topk(_MATCHES).indices
    rows = best // weights.shape[1], best % weights.shape[1]
    sides = [lines.pluecker().numpy()[row.numpy()] for lines, row in zip((source, target), rows, strict=True)]
    plain_ransac(*sides, signed=False)
    return {}


@cache
def _network() -> Any:
    from plueckernet.models.weights import load_pretrained

    return load_pretrained("pluecker-indoor")


def _read(path: Path) -> tuple[LineSet, LineSet]:
    with np.load(path) as arrays:
        infinite = bool(arrays["infinite"])
        source, target = (torch.from_numpy(arrays[name]) for name in ("source", "target"))
    if infinite:
        return LineSet(source[:, :3], source[:, 3:]), LineSet(target[:, :3], target[:, 3:])
    return LineSet.from_segments(source.unflatten(1, (2, 3))), LineSet.from_segments(target.unflatten(1, (2, 3)))


if __name__ == "__main__":
    main()
