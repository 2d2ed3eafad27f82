"""The tables of docs/extraction.md and docs/odometry.md, made from ``results/*.json``.

``python -m benchmarks.sensors_tables`` writes each between two markers. The tables say nothing that is not computed
from the committed JSON: change the numbers there, never here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, filled

DOCS = Path(__file__).parents[1] / "docs"
SCENES = {"boxes": "boxes", "facade": "façade"}
METHODS = {  # of odometry, as they are called in the tables
    "frame to local map": "lines, no initial guess, local map",
    "frame to frame": "lines, no initial guess, frame to frame",
    "ICL": "lines, ICL from the identity",
    "Open3D": "pixels, Open3D's RGB-D odometry from the identity",
}


def clouds() -> Iterator[str]:
    """Recall and precision on clouds whose edges are known."""
    found = _read("extraction")
    yield "| cloud | points | edges | recall and precision, 3 cm and 2° | 10 cm and 5° |"
    yield "|---|---|---|---|---|"
    for row in found["dense"]:
        yield _cloud(f"{SCENES[row['scene']]}, dense (1 cm), {1000 * row['noise']:.0f} mm noise", row)
    for row in found["lidar"]:
        viewpoint = ", viewpoint" if row["viewpoint"] else ""
        yield _cloud(f"{SCENES[row['scene']]}, {row['rings']} rings, 20 mm noise{viewpoint}", row)
    large = found["large"]
    yield _cloud("façade, ten million points, by tiles", large)


def _cloud(name: str, row: dict[str, Any]) -> str:
    near, wide = row["3cm_2deg"], row["10cm_5deg"]
    shares = (f"{one['recall']:.0%}, {one['precision']:.0%}".replace("%", " %") for one in (near, wide))
    return f"| {name} | {row['points']:,} | {near['edges']} | {' | '.join(shares)} |"


def speed() -> Iterator[str]:
    """Time and memory of the large cloud."""
    large = _read("extraction")["large"]
    ratio = large["cpu_seconds"] / large["plain_normals_cpu_seconds"]
    yield "| points | seconds of one core | points a second | against normals of 30 neighbours alone | memory |"
    yield "|---|---|---|---|---|"
    each = f"{large['points_per_cpu_second']:,.0f} | {ratio:.2f} times the time | {large['peak_gib']:.1f} GiB"
    yield f"| {large['points']:,} | {large['cpu_seconds']:.0f} | {each} |"


def scans() -> Iterator[str]:
    """Registration of real scans by lines and by points; of two voxel sizes the better one."""
    lines, points = _read("sensors")["groups"], [_read(f"sensors_{method}")["groups"] for method in ("fpfh", "kiss")]
    yield (
        "| pairs | lines, median | lines: success | best pose right | called success but wrong"
        " | points: FPFH + RANSAC + ICP | points: KISS-Matcher + ICP |"
    )
    yield "|---|---|---|---|---|---|---|"
    for group, row in lines.items():
        cells = [f"{group}, {row['pairs']}", f"{row['lines_median']:.0f}", _outcome(row)]
        cells += [f"{row['best_pose_right']} of {row['pairs']}", str(row["called_success_but_wrong"])]
        cells += [_outcome(max(method[group].values(), key=_merit)) if group in method else "–" for method in points]
        yield f"| {' | '.join(cells)} |"


def _merit(row: dict[str, Any]) -> tuple[float, float]:
    return row["success"] / row["pairs"], -(row["translation_median"] or 0.0)


def _outcome(row: dict[str, Any]) -> str:
    count = f"{row['success']} of {row['pairs']}"
    if not row["success"]:
        return count
    return f"{count}, {row['rotation_median']:.2f}° / {1000 * row['translation_median']:.0f} mm"


def drift() -> Iterator[str]:
    """Relative error from frame to frame."""
    ours, pixels = _read("sensors_odometry"), _read("sensors_rgbd")
    yield "| sequence | method | rotation, median / RMS | translation, median / RMS | within 1° and 2 cm |"
    yield "|---|---|---|---|---|"
    for sequence in ours:
        for method, name in METHODS.items():
            row = pixels[sequence] if method == "Open3D" else ours[sequence][method]
            turn = f"{row['rotation_median']:.3f}° / {row['rotation_rmse']:.3f}°"
            shift = f"{1000 * row['translation_median']:.1f} / {1000 * row['translation_rmse']:.1f} mm"
            share = f"{row['within_1_degree_and_2_cm']:.0%}".replace("%", " %")
            yield f"| {sequence}, {ours[sequence]['frames']} frames | {name} | {turn} | {shift} | {share} |"


def _read(name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return {key: value for key, value in values.items() if key not in ("provenance", "metadata")}


TABLES: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {  # name of the markers: page, rows
    "clouds": ("extraction.md", clouds),
    "speed": ("extraction.md", speed),
    "scans": ("odometry.md", scans),
    "drift": ("odometry.md", drift),
}


def main() -> None:
    """Fill in all tables."""
    for name, (page, rows) in TABLES.items():
        path = DOCS / page
        path.write_text(
            filled(path.read_text(encoding="utf-8"), name, "sensors_tables", "\n".join(rows())), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
