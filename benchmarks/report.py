"""How large reports are and whether a browser copes with them: ``python -m benchmarks.report``; needs Chromium.

Maps are many synthetic houses side by side, each missing a third of the lines, under the true pose and without noise:
as many lines match as can, and the page is as large as it gets. The picture is turned by the arrow keys in a headless
browser that draws in software, the slowest there is; the first frames, in which the page finds out how slow, are told
apart. ``--keep FOLDER`` keeps the pages and a screenshot of each.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import save
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet, Pose
from plueckernet.registration import refine
from plueckernet.report import write_report

SIZES = (2_000, 20_000)
_LEARNING = 4  # frames after which the page draws as many lines as it can
_TURN = """() => new Promise(done => {
  const canvas = document.querySelector("canvas"), frames = 30, times = [];
  const step = now => {
    times.push(now);
    if (times.length > frames) return done(times.slice(1).map((time, place) => time - times[place]));
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


def main() -> None:
    """Write ``results/report.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="folder for the pages and their screenshots")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        pages = [folder / f"{count}.html" for count in SIZES]
        sizes = [_written(count, page) for count, page in zip(SIZES, pages, strict=True)]
        frames = _frames(pages)
    medians = [statistics.median(times[_LEARNING:]) for times in frames]
    for size, times, median in zip(sizes, frames, medians, strict=True):
        size["frame_while_turning_over_smallest"] = round(median / medians[0], 2)
        size["milliseconds_per_frame_while_turning_in_software"] = round(median, 1)
        size["slowest_of_the_first_frames"] = round(max(times[:_LEARNING]), 1)
    save("report", {"reports": sizes}, weights=["invariant"])


def city(count: int) -> LineSet:
    """Houses side by side, ``count`` lines in all."""
    houses, total, place = [], 0, 0
    while total < count:
        lines = make_scene("indoor", place)
        aside = torch.tensor([25.0 * (place % 9), 25.0 * (place // 9), 0.0], dtype=torch.float64)
        houses.append(lines.endpoints + aside)
        total, place = total + len(lines), place + 1
    return LineSet.from_segments(torch.cat(houses)[:count])


def _written(count: int, path: Path) -> dict[str, Any]:
    whole = city(3 * count // 2)
    generator = torch.Generator().manual_seed(count)
    sides = [torch.randperm(len(whole), generator=generator)[:count] for _ in range(2)]
    pose = Pose.random(generator=generator, translation=50.0)
    source, target = whole[sides[0]].replaced(ids=None), (pose @ whole)[sides[1]].replaced(ids=None)
    start = time.perf_counter()
    result = refine(source, target, pose)
    middle = time.perf_counter()
    write_report(path, result, source, target)
    end = time.perf_counter()
    return {
        "lines": count,
        "status": str(result.status),
        "inliers": len(result.inliers),
        "megabytes": round(path.stat().st_size / 1e6, 3),
        "writing_over_refining": round((end - middle) / (middle - start), 2),
    }


def _frames(pages: list[Path]) -> list[list[float]]:
    """Milliseconds of each frame while the picture turns; a screenshot is left beside each page."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless=new", "--no-sandbox", "--disable-quic"]
        )
        for path in pages:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(180_000)
            page.goto(path.as_uri())
            page.wait_for_timeout(1000)
            times.append([float(time) for time in page.evaluate(_TURN)])
            page.locator("#fit").click()
            page.wait_for_timeout(2000)
            page.screenshot(path=path.with_suffix(".png"))
            page.close()
        browser.close()
    return times


if __name__ == "__main__":
    main()
