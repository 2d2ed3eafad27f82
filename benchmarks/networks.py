"""The networks on the CPU: time and memory of matcher and transport as maps grow, and against a plain version.

    python -m benchmarks.networks

Each size runs in a process of its own, whose peak memory is the one reported. The plain version is PlückerNet with
the same weights written without care: einsum attention, an edge for each neighbour, Sinkhorn on exponentials.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import group_norm, normalize

from plueckernet.evaluation.provenance import provenance
from plueckernet.geometry import LineSet
from plueckernet.models import InvariantConfig, Matcher, PlueckerConfig, build_matcher, top_matches
from plueckernet.models.attention import MessageLayer
from plueckernet.models.matcher import MatchHead, PlueckerTrunk
from plueckernet.models.mlp import MLP, GroupNorm
from plueckernet.models.pluecker_encoder import PlueckerEncoder, Subspace

SIZES = (215, 700, 2000, 10_000)
RESULTS = Path(__file__).parent / "results" / "networks_cpu.json"
CONFIGS = {
    "invariant": InvariantConfig(),
    "pluecker": PlueckerConfig(),
}


def random_pair(lines: int) -> tuple[LineSet, LineSet]:
    """Segments of about a metre, as dense as in a house however many there are."""
    generator = torch.Generator().manual_seed(lines)
    extent = 10.0 * (lines / 215) ** 0.5
    sets = []
    for _ in range(2):
        ends = torch.randn(1, lines, 2, 3, generator=generator, dtype=torch.float64)
        place = torch.rand(1, lines, 1, 3, generator=generator, dtype=torch.float64)
        size = torch.tensor([extent, extent, 3.0], dtype=torch.float64)
        sets.append(LineSet.from_segments(ends + place * size))
    return sets[0], sets[1]


# The plain version


def plain_mlp(mlp: MLP, x: Tensor) -> Tensor:
    """Linear, group norm, GELU, channel first as in the literature."""
    for linear, norm in zip(mlp.linear, mlp.norm, strict=False):
        if not isinstance(norm, GroupNorm):
            raise TypeError("the plain version knows group norm only")
        x = group_norm(linear(x).mT, norm.groups, norm.weight, norm.bias).mT
        x = torch.nn.functional.gelu(x)
    return mlp.linear[-1](x)


def plain_subspace(subspace: Subspace, o: Tensor) -> Tensor:
    """Eq. (2) edge by edge."""
    near = torch.cdist(o, o).topk(min(subspace.neighbours, o.shape[1]), largest=False).indices
    edges = o[torch.arange(len(o))[:, None, None], near] - o[:, :, None]
    return plain_mlp(subspace.lift, (subspace.theta(edges) + subspace.phi(o)[:, :, None]).mean(2))


def plain_encoder(encoder: PlueckerEncoder, lines: LineSet) -> Tensor:
    """Subspace coding."""
    v, m = lines.direction.float(), lines.moment.float()
    return plain_mlp(
        encoder.joint, torch.cat([plain_subspace(encoder.direction, v), plain_subspace(encoder.moment, m)], -1)
    )


def plain_layer(layer: MessageLayer, x: Tensor, context: Tensor) -> Tensor:
    """Eq. (3)-(4) with the attention weights written out."""
    heads, channels = layer.config.heads, layer.config.channels
    q = layer.query(x).unflatten(-1, (heads, -1))
    k, v = (t.unflatten(-1, (heads, -1)) for t in layer.key_value(context).split(channels, -1))
    weights = (torch.einsum("bnhd,bmhd->bhnm", q, k) / math.sqrt(channels)).softmax(-1)
    message = torch.einsum("bhnm,bmhd->bnhd", weights, v).flatten(-2)
    return x + plain_mlp(layer.update, torch.cat([x, layer.merge(message)], -1))


def plain_head(head: MatchHead, x: Tensor, y: Tensor) -> Tensor:
    """Eq. (5) and Algorithm 1 as printed."""
    if head.matchability is None:
        raise TypeError("the plain version needs the matchability network")
    marginals = []
    for a, b in ((x, y), (y, x)):
        pooled = torch.cat([b.mean(1), b.amax(1)], -1)[:, None].expand(-1, a.shape[1], -1)
        marginals.append(plain_mlp(head.matchability, torch.cat([a, pooled], -1)).softmax(1))
    r, s = marginals
    x, y = normalize(head.project(x), dim=-1), normalize(head.project(y), dim=-1)
    kernel = torch.exp(-torch.cdist(x, y) / head.sinkhorn.regularisation)
    kernel = kernel / kernel.sum((1, 2), keepdim=True)
    b = torch.ones_like(s)
    for _ in range(head.sinkhorn.iterations):
        a = r / (kernel @ b)
        b = s / (kernel.mT @ a)
    return a * kernel * b.mT


def plain_pluecker(net: Matcher, source: LineSet, target: LineSet) -> Tensor:
    """PlückerNet, one set after the other: the weights `W`."""
    if not isinstance(net.trunk, PlueckerTrunk):
        raise TypeError("the plain version is of PlückerNet only")
    x, y = plain_encoder(net.trunk.encoder, source), plain_encoder(net.trunk.encoder, target)
    for t, layer in enumerate(net.trunk.layers, start=1):
        if not isinstance(layer, MessageLayer):
            raise TypeError("not a layer of PlückerNet")
        x, y = (
            (plain_layer(layer, x, x), plain_layer(layer, y, y))
            if t % 2
            else (plain_layer(layer, x, y), plain_layer(layer, y, x))
        )
    return plain_head(net.head, x, y)


# Measuring


def timed(function: Callable[[], object], warmup: int, repeats: int) -> dict[str, float]:
    """Median and quartiles of wall-clock and processor time, in seconds."""
    wall, processor = [], []
    for i in range(warmup + repeats):
        start, start_processor = time.perf_counter(), time.process_time()
        function()
        if i >= warmup:
            wall.append(time.perf_counter() - start)
            processor.append(time.process_time() - start_processor)
    quartiles = statistics.quantiles(wall, n=4) if repeats > 1 else [wall[0]] * 3
    return {
        "median_s": statistics.median(wall),
        "q1_s": quartiles[0],
        "q3_s": quartiles[2],
        "processor_s": statistics.median(processor),
        "repeats": repeats,
    }


@torch.no_grad()
def measure(network: str, lines: int, threads: int) -> dict[str, Any]:
    """One network at one size, in this process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = build_matcher(CONFIGS[network]).eval()
    source, target = random_pair(lines)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def match() -> object:
        return top_matches(net(source, target).log_probability, 200)

    warmup, repeats = (1, 5) if lines <= 1000 else (1, 3) if lines <= 2000 else (0, 1)
    row = {"network": network, "lines": lines, **timed(match, warmup, repeats)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**row, "peak_gib": peak / 2**20, "of_which_before_gib": before / 2**20}


@torch.no_grad()
def compare_with_plain(lines: int, threads: int) -> dict[str, Any]:
    """Time of the plain PlückerNet over ours, alternating in one process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = build_matcher(CONFIGS["pluecker"]).eval()
    source, target = random_pair(lines)
    difference = (plain_pluecker(net, source, target) - net(source, target).log_probability.exp()).abs().max()
    ours, plain = [], []
    for _ in range(7):
        ours.append(timed(lambda: net(source, target), 0, 1))
        plain.append(timed(lambda: plain_pluecker(net, source, target), 0, 1))
    middle = {
        f"{name}_{key}": statistics.median(run[key] for run in runs)
        for name, runs in (("ours", ours), ("plain", plain))
        for key in ("median_s", "processor_s")
    }
    ratios = [p["median_s"] / o["median_s"] for o, p in zip(ours, plain, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    return {
        "lines": lines,
        **middle,
        "ratio": ratio,
        "ratio_q1": low,
        "ratio_q3": high,
        "difference": float(difference),
    }


def growth(rows: list[dict[str, Any]], network: str) -> dict[str, float]:
    """Exponents of processor time between consecutive sizes."""
    mine = [row for row in rows if row["network"] == network]
    return {
        f"{a['lines']}-{b['lines']}": math.log(b["processor_s"] / a["processor_s"]) / math.log(b["lines"] / a["lines"])
        for a, b in pairwise(mine)
    }


def table(document: dict[str, Any]) -> str:
    """The Markdown table of docs/networks.md."""
    lines = ["| network | lines a side | processor time (s) | peak memory (GiB) | growth since the row above |"]
    lines.append("|---|---|---|---|---|")
    for network, exponents in document["growth_exponents"].items():
        rows = [row for row in document["matcher_and_transport"] if row["network"] == network]
        for row, exponent in zip(rows, [None, *exponents.values()], strict=True):
            power = "" if exponent is None else f"n^{exponent:.1f}"
            cells = (network, f"{row['lines']:,}", f"{row['processor_s']:.2f}", f"{row['peak_gib']:.2f}", power)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def in_process(*arguments: str) -> dict[str, Any]:
    """Run one measurement in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.networks", *arguments]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    print(json.dumps(result), flush=True)
    return result


def main() -> None:
    """Measure everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", nargs=2, metavar=("NETWORK", "LINES"), help="measure one, print JSON")
    parser.add_argument("--plain", type=int, metavar="LINES", help="compare with the plain version, print JSON")
    parser.add_argument("--table", action="store_true", help="print the table of the last results")
    a = parser.parse_args()
    if a.table:
        print(table(json.loads(a.out.read_text())))
        return
    if a.one:
        print(json.dumps(measure(a.one[0], int(a.one[1]), a.threads)))
        return
    if a.plain:
        print(json.dumps(compare_with_plain(a.plain, a.threads)))
        return
    threads = ("--threads", str(a.threads))
    plain = in_process("--plain", "700", *threads)
    rows = [in_process("--one", name, str(n), *threads) for name in CONFIGS for n in a.sizes]
    document = {
        "provenance": provenance("benchmarks.networks").to_dict(),
        "metadata": {
            "machine": platform.platform(),
            "threads": a.threads,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "load_before": os.getloadavg(),
        },
        "matcher_and_transport": rows,
        "growth_exponents": {name: growth(rows, name) for name in CONFIGS},
        "plain_pluecker": plain,
    }
    a.out.parent.mkdir(parents=True, exist_ok=True)
    a.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
