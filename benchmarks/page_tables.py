"""Tables of the pages on extraction, odometry and networks, made from ``results/*.json``.

The tables say nothing that is not computed from the committed JSON: change the numbers there, never here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import confidence_page, cost_tables, networks, networks_designs, whole_crops
from benchmarks.harness import RESULTS
from benchmarks.sensitivity import table as settings_table
from benchmarks.sensor_results import OdometryValues, ScanGroup, ScanValues
from plueckernet.evaluation.documents import TableRow, read_json, read_result
from plueckernet.evaluation.outcomes import FALSE_SUCCESS
from plueckernet.evaluation.provenance import mark
from plueckernet.evaluation.rates import percent
from plueckernet.evaluation.result_rows import combined, right_text

SCENES = {"boxes": "boxes", "facade": "façade"}
METHODS = {  # of odometry, as they are called in the tables
    "frame to local map": "lines, no initial guess, local map",
    "frame to frame": "lines, no initial guess, frame to frame",
    "ICL": "lines, ICL from the identity",
    "Open3D": "pixels, Open3D's RGB-D odometry from the identity",
}

PEERS = {  # as they are called in the README, by the beginning of their names
    "plueckernet": "**plueckernet**",
    "plueckernet, no weights": "plueckernet `--matcher descriptors`, without a network",
    "PlückerNet as published": "PlückerNet, the paper's method, trained here on its protocol",
    "Open3D": "Open3D: points, FPFH + RANSAC + ICP",
    "KISS-Matcher": "KISS-Matcher: points, + ICP",
}


def clouds() -> Iterator[str]:
    """Recall and precision on clouds whose edges are known."""
    values = read_json(RESULTS / "extraction.json")
    yield "| cloud | points | edges | recall and precision, 3 cm and 2° | 10 cm and 5° |"
    yield "|---|---|---|---|---|"
    for row in values["dense"]:
        yield _cloud(f"{SCENES[row['scene']]}, dense (1 cm), {1000 * row['noise']:.0f} mm noise", row)
    for row in values["lidar"]:
        viewpoint = ", viewpoint" if row["viewpoint"] else ""
        yield _cloud(f"{SCENES[row['scene']]}, {row['rings']} rings, 20 mm noise{viewpoint}", row)
    yield _cloud("façade, ten million points, by tiles", values["large"])


def _cloud(name: str, row: dict[str, Any]) -> str:
    close, wide = row["3cm_2deg"], row["10cm_5deg"]
    cells = (f"{percent(cell['recall'])}, {percent(cell['precision'])}" for cell in (close, wide))
    return f"| {name} | {row['points']:,} | {close['edges']} | {' | '.join(cells)} |"


def large_cloud() -> Iterator[str]:
    """Time and memory of the large cloud."""
    large = read_json(RESULTS / "extraction.json")["large"]
    ratio = large["cpu_seconds"] / large["plain_normals_cpu_seconds"]
    yield "| points | seconds of one core | points per second | against normals of 30 neighbours alone | memory |"
    yield "|---|---|---|---|---|"
    each = f"{large['points_per_cpu_second']:,.0f} | {ratio:.2f} times the time | {large['peak_gib']:.1f} GiB"
    yield f"| {large['points']:,} | {large['cpu_seconds']:.0f} | {each} |"


def scans() -> Iterator[str]:
    """Registration of real scans by lines and by points; of two voxel sizes the better one."""
    lines, *points = (_scans(f"sensors{method}") for method in ("", "_fpfh", "_kiss"))
    yield (
        f"| pairs | lines, median | lines: right, median error | right and called a success | {FALSE_SUCCESS}"
        " | points: FPFH + RANSAC + ICP | points: KISS-Matcher + ICP |"
    )
    yield "|---|---|---|---|---|---|---|"
    for group in lines.groups:
        summary = group.summary
        cells = [f"{group.group}, {summary.pairs}", f"{group.lines_median:.0f}", _outcome(group)]
        cells += [f"{summary.right_and_accepted.count} of {summary.pairs}", summary.false_success_text]
        cells += [_best(method.of(group.group)) for method in points]
        yield f"| {' | '.join(cells)} |"


def _best(groups: list[ScanGroup]) -> str:
    return _outcome(max(groups, key=_merit)) if groups else "–"


def _merit(group: ScanGroup) -> tuple[float, float]:
    return group.summary.right.fraction, -(group.summary.translation_median or 0.0)


def _outcome(group: ScanGroup) -> str:
    summary = group.summary
    count = f"{summary.right.count} of {summary.pairs}"
    if summary.rotation_median is None or summary.translation_median is None:
        return count
    return f"{count}, {summary.rotation_median:.2f}° / {1000 * summary.translation_median:.0f} mm"


def scan_rows() -> list[TableRow]:
    """For the table of all numbers."""
    total = combined([group.summary for group in _scans("sensors").groups])
    return [
        TableRow("real scans and images, lines extracted", right_text(total)),
        TableRow(f"real scans and images, lines extracted: {FALSE_SUCCESS}", total.false_success_text),
    ]


def drift() -> Iterator[str]:
    """Relative error from frame to frame."""
    ours, pixels = (
        read_result(RESULTS / f"{name}.json", name, OdometryValues).values.sequences
        for name in ("sensors_odometry", "sensors_rgbd")
    )
    yield "| sequence | method | rotation, median / RMS | translation, median / RMS | within 1° and 2 cm |"
    yield "|---|---|---|---|---|"
    for name, sequence in ours.items():
        drifts = {**sequence.methods, **pixels[name].methods}
        for method, words in METHODS.items():
            row = drifts[method]
            turn = f"{row.rotation_median:.3f}° / {row.rotation_rmse:.3f}°"
            shift = f"{1000 * row.translation_median:.1f} / {1000 * row.translation_rmse:.1f} mm"
            yield f"| {name}, {sequence.frames} frames | {words} | {turn} | {shift} | {row.close} |"


def scaling() -> Iterator[str]:
    """Time and memory of the networks on the CPU."""
    yield networks.table(read_json(RESULTS / "networks_cpu.json"))


def designs() -> Iterator[str]:
    """Designs of the network."""
    yield networks_designs.table(read_json(RESULTS / "networks_designs.json")["designs"])


def gpu() -> Iterator[str]:
    """Training steps and inference on the GPU."""
    rows = read_json(RESULTS / "networks_gpu.json")["rows"]
    cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        if "network" in row and row["what"] in ("training step", "inference"):
            variant = f"{row['variant']}{', compiled' if row['compiled'] else ''}"
            cells.setdefault((row["network"], variant), {})[row["what"]] = row
    yield "| network | | step (ms) | memory of a step (GiB) | pairs per second |"
    yield "|---|---|---|---|---|"
    for (network, variant), measured in sorted(cells.items(), key=lambda cell: cell[0][0]):
        step, inference = measured.get("training step"), measured.get("inference")
        texts = ["–", "–"] if step is None else [f"{step['median_ms']:.1f}", f"{step['peak_gib']:.1f}"]
        texts.append("–" if inference is None else f"{inference['pairs_per_second']:,.0f}")
        yield f"| {network} | {variant} | {' | '.join(texts)} |"


def sensitivity() -> Iterator[str]:
    """What each setting of register() changes when it is halved or raised by half."""
    fields = read_json(RESULTS / "sensitivity_registration.json")["fields"]
    yield from settings_table({name.removeprefix("registration."): row for name, row in fields.items()})


def cpu_rows(values: dict[str, Any]) -> list[TableRow]:
    """Memory of the largest maps, and time against the plain version."""
    largest = max(values["matcher_and_transport"], key=lambda row: row["lines"])
    memory = f"memory of the {largest['network']} network, two maps of {largest['lines']:,} lines"
    ratio = values["plain_pluecker"]["ratio"]
    return [
        TableRow(memory, f"{largest['peak_gib']:.1f} GiB"),
        TableRow("PlückerNet on the CPU, against a plain version of it", f"{ratio:.1f} times as fast"),
    ]


def gpu_rows(values: dict[str, Any]) -> list[TableRow]:
    """The fastest variant."""
    timed = [row for row in values["rows"] if "pairs_per_second" in row and row["network"] == "invariant"]
    best = max(timed, key=lambda row: row["pairs_per_second"])
    how = (
        f"{best['variant']}{', compiled' if best['compiled'] else ''}, {values['provenance']['environment']['device']}"
    )
    return [TableRow("matching by the invariant network", f"{best['pairs_per_second']:.0f} pairs per second ({how})")]


def _scans(name: str) -> ScanValues:
    return read_result(RESULTS / f"{name}.json", name, ScanValues).values


_CONFIDENCES, _ACCEPTANCES = (
    tuple(f"{kind}_{matcher}" for matcher in confidence_page.MATCHERS) for kind in ("confidence", "acceptance")
)


def peers() -> Iterator[str]:
    """This package and others on the same pairs; of the variants of one method the best."""
    values = read_json(RESULTS / "peers.json")
    rows = values["rows"]
    bands = list(rows[0]["bands"])
    yield f"{values['pairs']} pairs of neighbouring crops of ten real maps, by the share of lines in common, one run:"
    yield ""
    yield f"| right: less than 5° and 0.5 m | {' | '.join(bands)} | wrong, but not told so | CPU time |"
    yield f"|---|{'---|' * len(bands)}---|---|"
    for name in PEERS:
        variants = [row for row in rows if row["method"] == name] or [row for row in rows if name in row["method"]]
        best = max(variants, key=_rightness)
        counts = best["bands"].values()
        cells = [f"{count['right']} of {count['pairs']}" for count in counts]
        untold = f"{sum(count['wrong_and_called'] for count in counts)} of {values['pairs']}"
        yield f"| {PEERS[name]} | {' | '.join(cells)} | {untold} | {best['time_over_ours']:.2f} |"
    yield "| TEASER++ | – | – | – | – | no wheel, not run | – |"


def _rightness(row: dict[str, Any]) -> int:
    return sum(counts["right"] for counts in row["bands"].values())


def how_tos() -> Iterator[str]:
    """Each command of a new user, with its time."""
    values = read_json(RESULTS / "how_tos.json")
    yield "| command | page | seconds | of a CPU |"
    yield "|---|---|---|---|"
    for step in values["installation"]:
        yield f"| `{step['command']}` | | {step['seconds']:.0f} | {step['cpu_seconds']:.0f} |"
    for task in values["tasks"]:
        place = Path(task["page"])
        link = f"[{place.stem}]({place.relative_to('docs')})" if place.parts[0] == "docs" else "first page"
        yield f"| `{task['command']}` | {link} | {task['seconds']:.1f} | {task['cpu_seconds']:.1f} |"


def cold_start() -> Iterator[str]:
    """Seconds of a new process that registers, beside those that only import."""
    values = read_json(RESULTS / "cold_start.json")["median"]
    torch = values["import torch"]["wall"]
    yield "| in a new process | output complete | process ended | of a CPU | over `import torch` |"
    yield "|---|---|---|---|---|"
    for name, run in values.items():
        cells = [f"{run[kind]:.2f} s" for kind in ("printed", "wall", "cpu")]
        yield f"| `{name}` | {' | '.join(cells)} | {run['wall'] / torch:.2f} |"


def min_confidence() -> Iterator[str]:
    """What is given and what is wrong, by the confidence that is asked for."""
    values = read_json(RESULTS / "min_confidence.json")
    yield "| `min_confidence` | poses given | wrong among them | better than the others at | level at | worse at |"
    yield "|---|---|---|---|---|---|"
    for row in values["levels"]:
        yield (
            f"| {row['min_confidence']} | {row['given']:,} | {_of(row)} | {row['better']} | {row['level']} |"
            f" {row['worse']} |"
        )
    for role, title in (("pluecker", "PlückerNet"), ("icl", "ICL")):
        row = values["others"][role]
        yield f"| {title}, which does not judge | {row['given']:,} | {_of(row)} | – | – | – |"
    yield ""
    yield f"{values['settings']} settings, {values['pairs']:,} pairs."


def _of(row: dict[str, Any]) -> str:
    return f"{row['wrong']:,} ({100 * row['wrong'] / row['given']:.1f} %)"


# Name of the markers: page, results, rows.
TABLES: dict[str, tuple[str, tuple[str, ...], Callable[[], Iterator[str]]]] = {
    "peers": ("../README.md", ("peers",), peers),
    "clouds": ("extraction.md", ("extraction",), clouds),
    "speed": ("extraction.md", ("extraction",), large_cloud),
    "scans": ("odometry.md", ("sensors", "sensors_fpfh", "sensors_kiss"), scans),
    "drift": ("odometry.md", ("sensors_odometry", "sensors_rgbd"), drift),
    "scaling": ("networks.md", ("networks_cpu",), scaling),
    "gpu": ("networks.md", ("networks_gpu",), gpu),
    "designs": ("networks.md", ("networks_designs",), designs),
    "sensitivity": ("registration.md", ("sensitivity_registration",), sensitivity),
    "calibration": ("reliability.md", _CONFIDENCES, confidence_page.calibration),
    "kinds": ("reliability.md", _CONFIDENCES[:2], confidence_page.kinds),
    "acceptance": ("reliability.md", _ACCEPTANCES, confidence_page.accepted),
    "fresh_crops": ("reliability.md", (confidence_page.FRESH,), confidence_page.fresh_crops),
    "whole_crops": ("reliability.md", ("whole_crops",), whole_crops.table),
    "min_confidence": ("reliability.md", ("min_confidence",), min_confidence),
    "cold_start": ("start.md", ("cold_start",), cold_start),
    "how_tos": ("start.md", ("how_tos",), how_tos),
    "units": ("batch.md", ("costs",), cost_tables.units),
    "workers": ("batch.md", (), cost_tables.start),
    "scenario": ("batch.md", (), cost_tables.scenario),
}


def marked_table(name: str) -> str:
    """A table, and below it where its numbers belong if they are not of the present sources."""
    _, results, rows = TABLES[name]
    paths = {result: RESULTS / f"{result}.json" for result in results}
    marks = {result: mark(read_json(path)) for result, path in paths.items() if path.exists()}
    said = "; ".join(f"`{result}.json` {text}" for result, text in marks.items() if text)
    return "\n".join([*rows(), *(["", f"*Measured: {said}.*"] if said else [])])
