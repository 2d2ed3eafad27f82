"""How large reports are, and how fast a browser shows them and the viewer: ``python -m benchmarks.report``.

It needs Chromium. Maps are many synthetic houses side by side, each missing a third of the lines, under the true pose
and without noise: as many lines match as can, and the page is as large as it gets. The picture is turned by the arrow
keys in a headless browser that draws in software, the slowest there is; the first frames, in which the page finds out
how slow, are told apart. A page has started when all its lines are drawn. ``--keep FOLDER`` keeps the pages and a
screenshot of each.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import save
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import write_lines
from plueckernet.registration import refine
from plueckernet.report import write_report
from plueckernet.viewer import Viewer

SIZES = (2_000, 20_000)
_STARTED = """() => new Promise(done => {
  const canvas = document.querySelector("canvas");
  const look = () => canvas.dataset.frame === "still" ? done(performance.now()) : setTimeout(look, 5);
  look();
})"""
_ALL_LINES = """() => new Promise(done => { // reading a pixel waits until the frame is drawn
  const canvas = document.querySelector("canvas"), gl = canvas.getContext("webgl2"), times = [];
  const read = () => gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  const step = () => {
    read();
    const start = performance.now();
    window.plueckernetView.redraw();
    requestAnimationFrame(() => {
      read();
      times.push(performance.now() - start);
      times.length < 7 ? setTimeout(step) : done(times);
    });
  };
  step();
})"""
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
        sizes, viewers = [], []
        for count, page in zip(SIZES, pages, strict=True):
            size, viewer = _written(count, page)
            sizes.append(size)
            viewers.append(viewer)
        shown = _shown(pages, [viewer.url for viewer in viewers])
        for viewer in viewers:
            viewer.stop()
    medians = [statistics.median(frames.turning[_LEARNING:]) for frames in shown]
    for size, frames, median in zip(sizes, shown, medians, strict=True):
        size["seconds_to_start_in_software"] = round(frames.report_start / 1e3, 2)
        size["seconds_to_start_the_viewer_in_software"] = round(frames.viewer_start / 1e3, 2)
        size["milliseconds_per_frame_of_all_lines_in_software"] = round(statistics.median(frames.whole), 1)
        size["frame_while_turning_over_smallest"] = round(median / medians[0], 2)
        size["milliseconds_per_frame_while_turning_in_software"] = round(median, 1)
        size["slowest_of_the_first_frames"] = round(max(frames.turning[:_LEARNING]), 1)
    save("report", {"reports": sizes}, weights=["invariant"])


@dataclass(frozen=True)
class _Frames:
    """Milliseconds in the browser."""

    report_start: float
    viewer_start: float
    whole: list[float]  # frames with all lines
    turning: list[float]


def city(count: int) -> LineSet:
    """Houses side by side, ``count`` lines in all."""
    houses, total, place = [], 0, 0
    while total < count:
        lines = make_scene("indoor", place)
        aside = torch.tensor([25.0 * (place % 9), 25.0 * (place // 9), 0.0], dtype=torch.float64)
        houses.append(lines.endpoints + aside)
        total, place = total + len(lines), place + 1
    return LineSet.from_segments(torch.cat(houses)[:count])


def _written(count: int, path: Path) -> tuple[dict[str, Any], Viewer]:
    """A report and a viewer of the same maps."""
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
    viewer = Viewer(port=18600)
    for side, lines in (("source", source), ("target", target)):
        write_lines(path.with_name(f"{side}.npz"), lines)
        viewer.load("source" if side == "source" else "target", path.with_name(f"{side}.npz"))
    viewer.session.take(result)
    size = {
        "lines": count,
        "status": str(result.status),
        "inliers": len(result.inliers),
        "megabytes": round(path.stat().st_size / 1e6, 3),
        "writing_over_refining": round((end - middle) / (middle - start), 2),
    }
    return size, viewer


def _shown(pages: list[Path], viewers: list[str]) -> list[_Frames]:
    """How fast each page is; a screenshot is left beside each report."""
    from playwright.sync_api import sync_playwright

    shown = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless=new", "--no-sandbox", "--disable-quic"]
        )
        for path, viewer in zip(pages, viewers, strict=True):
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(180_000)
            page.goto(viewer, wait_until="commit")
            page.locator(".verdict").wait_for()
            viewer_start = page.evaluate(_STARTED)
            page.goto(path.as_uri())
            report_start = page.evaluate(_STARTED)
            whole = page.evaluate(_ALL_LINES)
            shown.append(_Frames(report_start, viewer_start, whole, page.evaluate(_TURN)))
            page.locator("#fit").click()
            page.evaluate(_STARTED)
            page.screenshot(path=path.with_suffix(".png"))
            page.close()
        browser.close()
    return shown


if __name__ == "__main__":
    main()
