"""The viewer in a real browser, from two files to an exported result."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.helpers import FRIDAY, MONDAY
from tests.e2e.browser import Watched, changed_fraction, chromium, drawn_fraction
from tests.estimation.lines_for_tests import errors

from plueckernet.data.protocols import ScanProtocol, unrelated_pair
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import Pose
from plueckernet.io import write_lines
from plueckernet.report.frame import Motion
from plueckernet.viewer import Viewer

TRUTH = Pose.from_matrix(
    torch.tensor(json.loads((MONDAY.parent / "truth.json").read_text())["target_T_source"], dtype=torch.float64)
)


@pytest.fixture
def viewer():
    viewer = Viewer(port=18080)
    yield viewer
    viewer.stop()


@pytest.fixture
def watched(viewer: Viewer):
    with chromium() as browser:
        page_watch = Watched(browser, accept_downloads=True)
        page_watch.page.goto(viewer.url)
        page_watch.page.get_by_role("button", name="Register").wait_for()
        yield page_watch
        page_watch.context.close()
        assert page_watch.errors == []


def until(watched: Watched, condition, what: str) -> None:
    end = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        watched.page.wait_for_timeout(100)


def drop(watched: Watched, *paths: Path, on: str = "canvas") -> None:
    """Drop files on the middle of an element, as the file manager of a desktop does."""
    box = watched.page.locator(on).first.bounding_box()
    point = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    hand = watched.context.new_cdp_session(watched.page)
    for kind in ("dragEnter", "dragOver", "drop"):
        hand.send("Input.dispatchDragEvent", {"type": kind, **point, "data": data})


def exported(watched: Watched, label: str) -> bytes:
    with watched.page.expect_download() as download:
        watched.page.get_by_role("button", name=label).click()
    return Path(download.value.path()).read_bytes()


def keep(watched: Watched, name: str) -> None:
    """A screenshot without the notifications of viser."""
    for close in watched.page.locator(".mantine-Notification-closeButton").all():
        close.click()
    watched.keep(name)


def inliers(watched: Watched) -> int:
    return int(watched.page.get_by_text("pairs at most").inner_text().split()[1])


def drag_threshold(watched: Watched, fraction: float) -> None:
    """Drag the thumb of the slider to a fraction of the track."""
    mouse = watched.page.mouse
    thumb = watched.page.get_by_role("slider").nth(1)
    track = thumb.locator("xpath=..").bounding_box()
    at = thumb.bounding_box()
    height = at["y"] + at["height"] / 2
    mouse.move(at["x"] + at["width"] / 2, height)
    mouse.down()
    mouse.move(track["x"] + fraction * track["width"], height, steps=4)
    mouse.up()


def drag_arrow(viewer: Viewer, watched: Watched, pixels: float) -> None:
    """Drag the source by the vertical arrow of its gizmo."""
    gizmo = viewer._stage.gizmo
    start = np.array(gizmo.position)
    tip = start + 0.9 * gizmo.scale * Motion.from_quaternion(np.array(gizmo.wxyz), start).rotation[:, 2]
    x, y = on_screen(viewer, tip)
    away = np.array([x, y]) - on_screen(viewer, start)
    mouse = watched.page.mouse
    for move in (
        lambda: mouse.move(x, y),
        mouse.down,
        lambda: mouse.move(*([x, y] + pixels * away / np.linalg.norm(away)), steps=5),
        mouse.up,
    ):
        move()
        frames(watched)


def frames(watched: Watched) -> None:
    """Let the page draw and notice where the mouse is, however slowly."""
    watched.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def on_screen(viewer: Viewer, point: np.ndarray) -> np.ndarray:
    """Where a point of the scene is seen, in pixels."""
    (client,) = viewer.server.get_clients().values()
    camera = client.camera
    right, down, ahead = (point - camera.position) @ Motion.from_quaternion(camera.wxyz, camera.position).rotation
    return np.array([640.0, 400.0]) + 400 / np.tan(camera.fov / 2) * np.array([right, down]) / ahead


def test_two_dropped_files_are_registered_and_the_result_exported(viewer: Viewer, watched: Watched) -> None:
    page = watched.page
    assert page.get_by_role("button", name="Register").is_disabled()
    drop(watched, MONDAY, FRIDAY)
    page.get_by_text("house_monday.obj (obj): 509 segments").wait_for()
    page.get_by_text("house_friday.txt (txt): 404 segments").wait_for()
    until(watched, lambda: drawn_fraction(watched.seen()) > 0.01, "both maps are drawn")
    apart = watched.seen()

    page.get_by_role("button", name="Register").click()
    page.get_by_text("Registered", exact=True).wait_for()
    until(watched, lambda: viewer._progress.value == 1.0, "the animation ends")
    assert changed_fraction(apart, watched.seen()) > 0.01
    keep(watched, "viewer.png")
    assert inliers(watched) > 100

    page.get_by_text("Export").click()
    matrix = json.loads(exported(watched, "Result (JSON)"))["target_T_source"]
    turn, _ = errors(Pose.from_matrix(torch.tensor(matrix, dtype=torch.float64)), TRUTH)
    assert turn < 0.5
    assert b"<title>Registered: house_monday.obj" in exported(watched, "Report (HTML)")
    assert exported(watched, "Source in the target").count(b"\nl ") == 509


def test_a_bad_file_is_a_message_and_the_maps_stay(viewer: Viewer, watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    bad = tmp_path / "<b>bad.txt"
    bad.write_text("1 2 3 4 5 6\n1 2 three 4 5 6\n")
    drop(watched, bad, FRIDAY)
    page.get_by_text("<b>bad.txt:2: ").wait_for()
    page.get_by_text("house_friday.txt (txt): 404 segments").wait_for()
    assert page.get_by_text("<b>bad.txt:2: ").is_visible()  # the other file has not removed it

    drop(watched, MONDAY)  # goes to the missing map
    page.get_by_text("source house_monday.obj").wait_for()
    until(watched, lambda: page.get_by_text("bad.txt:2: ").count() == 0, "the message is removed")
    for paths, words in (
        ([MONDAY], "Drop the file on the map that it replaces"),
        ([MONDAY, FRIDAY, MONDAY], "Drop at most two files"),
        ([tmp_path], "Folders cannot be dropped"),
    ):
        drop(watched, *paths)
        page.get_by_text(words).wait_for()
    assert viewer.session.maps["target"].path.name == "house_friday.txt"

    drop(watched, MONDAY, on="[data-map]:has-text('target')")
    page.get_by_text("target house_monday.obj").wait_for()
    # Both sides are the same map now and coincide, unless the page has kept the old position of the source.
    until(watched, lambda: drawn_lines(watched) > 0.01, "both maps are drawn")
    with_source = drawn_lines(watched)
    page.get_by_role("checkbox", name="Source", exact=True).click()
    until(watched, lambda: not viewer._shown["source"].value, "the source is hidden")
    assert drawn_lines(watched) > 0.8 * with_source


def drawn_lines(watched: Watched) -> float:
    """Fraction of bright pixels between the notifications and the controls."""
    return float((watched.seen()[:, 320:870].max(-1) > 90).mean())


def test_files_are_opened_by_the_buttons_too(watched: Watched) -> None:
    for index, (side, path) in enumerate((("source", MONDAY), ("target", FRIDAY))):
        with watched.page.expect_file_chooser() as chooser:
            watched.page.get_by_role("button", name=f"Open the {side}").click()
        chooser.value.set_files(path)
        watched.page.get_by_text(f"{side} {path.name}").wait_for()
        assert watched.page.locator("[data-map=missing]").count() == 1 - index


def test_thresholds_toggles_and_a_pose_by_hand(viewer: Viewer, watched: Watched) -> None:
    page = watched.page
    viewer.load("source", MONDAY)
    viewer.load("target", FRIDAY)
    viewer.register()
    page.get_by_text("pairs at most").wait_for()
    first, count = watched.seen(), inliers(watched)

    drag_threshold(watched, 0.1)
    until(watched, lambda: inliers(watched) < count, "fewer inliers")
    assert changed_fraction(first, watched.seen()) > 0.001
    drag_threshold(watched, 0.95)
    until(watched, lambda: inliers(watched) > count, "more inliers")

    second = watched.seen()
    page.get_by_label("Unmatched").click()
    until(watched, lambda: not viewer._shown["unmatched"].value, "unmatched lines are hidden")
    assert changed_fraction(second, watched.seen()) > 0.001

    registered, third = viewer.session.view.pose, watched.seen()
    page.get_by_label("Move source").click()
    until(watched, lambda: changed_fraction(third, watched.seen()) > 0.001, "handles to drag")
    drag_arrow(viewer, watched, pixels=5)
    until(watched, lambda: viewer.session.view.name == "by hand", "the drag is registered")
    _, moved = errors(viewer.session.view.pose, registered)
    assert moved > 0.05
    keep(watched, "viewer-by-hand.png")
    page.get_by_role("button", name="Refine from here").click()
    until(watched, lambda: viewer.session.view.name == "refined", "the dragged pose is refined")
    turn, shift = errors(viewer.session.view.pose, registered)
    assert turn < 0.05
    assert shift < 0.01


def test_candidates_of_a_failure_can_be_shown(viewer: Viewer, watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    maps = unrelated_pair(make_scene("indoor", 3), make_scene("indoor", 4), ScanProtocol(overlap=0.6), 0)
    for name, lines in zip("ab", maps, strict=True):
        write_lines(tmp_path / f"{name}.obj", lines)
    drop(watched, tmp_path / "a.obj", tmp_path / "b.obj")
    page.get_by_text("target b.obj").wait_for()
    page.get_by_role("button", name="Register").click()
    page.get_by_text("Not registered: ").wait_for()
    until(watched, lambda: viewer._progress.value == 1.0, "the best candidate is shown")
    first = watched.seen()
    page.get_by_label("Pose").click()
    page.get_by_role("option", name="candidate 2", exact=True).click()
    until(watched, lambda: viewer.session.view.name == "candidate 2", "another pose")
    until(watched, lambda: changed_fraction(first, watched.seen()) > 0.01, "another picture")
