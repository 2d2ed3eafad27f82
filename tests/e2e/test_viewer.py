"""The viewer in a real browser, from two files to an exported result: one browser and one server for all tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.cli.helpers import FRIDAY, MONDAY
from tests.e2e.browser import Watched, changed_fraction, chromium, drawn_fraction
from tests.e2e.results import demo, failure
from tests.estimation.lines_for_tests import errors

from plueckernet.geometry import Pose
from plueckernet.viewer import Viewer
from plueckernet.viewer.session import BY_HAND, REFINED

TRUTH = Pose.from_matrix(
    torch.tensor(json.loads((MONDAY.parent / "truth.json").read_text())["target_T_source"], dtype=torch.float64)
)


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def server() -> Iterator[Viewer]:
    viewer = Viewer(port=18080)
    yield viewer
    viewer.stop()


@pytest.fixture
def viewer(server: Viewer) -> Viewer:
    """The viewer without maps."""
    for side in tuple(server.session.maps):
        del server.session.maps[side]
    server.session.result, server.session.shown, server.session.focus = None, [], 0
    server._tell()
    return server


@pytest.fixture
def watched(viewer: Viewer, browser) -> Iterator[Watched]:
    page_watch = Watched(browser, accept_downloads=True)
    page_watch.page.goto(viewer.url)
    page_watch.page.locator("#register").wait_for()
    yield page_watch
    page_watch.context.close()
    # A refused action is an answer with the status 409, which the browser reports as an error.
    assert [error for error in page_watch.errors if "409" not in error] == []


@pytest.fixture
def registered(viewer: Viewer, watched: Watched) -> Watched:
    """The page with the result of the demo."""
    viewer.load("source", MONDAY)
    viewer.load("target", FRIDAY)
    viewer.session.take(demo()[0])
    viewer._tell()
    watched.page.get_by_text("Registered", exact=True).wait_for()
    watched.wait("document.querySelector('#count').textContent.endsWith(' inliers')")
    return watched


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


def test_two_dropped_files_are_registered_and_the_result_exported(viewer: Viewer, watched: Watched) -> None:
    page = watched.page
    assert page.locator("#register").is_disabled()
    drop(watched, MONDAY, FRIDAY)
    page.get_by_text("house_monday.obj (obj): 509 segments").wait_for()
    page.get_by_text("house_friday.txt (txt): 404 segments").wait_for()
    watched.wait("!document.querySelector('#register').disabled")
    apart = watched.seen()
    assert drawn_fraction(apart) > 0.01

    page.locator("#register").click()
    page.get_by_text("Registered", exact=True).wait_for()
    watched.wait("document.getElementById('progress').value === '1'")
    assert changed_fraction(apart, watched.seen()) > 0.01
    watched.keep("viewer.png")
    count = len(viewer.session.result.inliers)
    assert page.locator("#count").inner_text() == f"{count} inliers"
    assert f"{count} lines coincide" in page.locator(".verdict").inner_text()

    matrix = json.loads(exported(watched, "Result (JSON)"))["target_T_source"]
    turn, _ = errors(Pose.from_matrix(torch.tensor(matrix, dtype=torch.float64)), TRUTH)
    assert turn < 0.5
    assert b"<title>Registered: house_monday.obj" in exported(watched, "Report (HTML)")
    assert exported(watched, "Aligned source").count(b"\nl ") == 509


def test_a_bad_file_is_a_message_and_the_maps_stay(viewer: Viewer, watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    bad = tmp_path / "<b>bad.txt"
    bad.write_text("1 2 3 4 5 6\n1 2 three 4 5 6\n")
    drop(watched, bad, FRIDAY)
    page.get_by_text("<b>bad.txt:2: ").wait_for()
    page.get_by_text("house_friday.txt (txt): 404 segments").wait_for()
    assert page.get_by_text("<b>bad.txt:2: ").is_visible()  # the other file has not removed it

    drop(watched, MONDAY)  # goes to the missing map
    page.get_by_text("house_monday.obj (obj)").wait_for()
    page.get_by_text("bad.txt:2: ").wait_for(state="detached")
    for paths, words in (
        ([MONDAY], "Drop the file on the map that it replaces"),
        ([MONDAY, FRIDAY, MONDAY], "Drop at most two files"),
        ([tmp_path], "Folders cannot be dropped"),
    ):
        drop(watched, *paths)
        page.get_by_text(words).wait_for()
    assert viewer.session.maps["target"].path.name == "house_friday.txt"
    drop(watched, MONDAY, on="[data-map]:has(#map-target)")
    watched.wait("document.querySelector('#map-target').textContent.startsWith('house_monday.obj')")


def test_files_are_opened_by_the_buttons_too(watched: Watched) -> None:
    for index, (side, path) in enumerate((("source", MONDAY), ("target", FRIDAY))):
        with watched.page.expect_file_chooser() as chooser:
            watched.page.get_by_role("button", name=f"Open the {side}").click()
        chooser.value.set_files(path)
        watched.wait(f"document.querySelector('#map-{side}').textContent.startsWith('{path.name}')")
        assert watched.page.locator("[data-map=missing]").count() == 1 - index


def test_the_source_is_moved_and_turned_by_hand_and_refined(viewer: Viewer, registered: Watched) -> None:
    page, before = registered.page, viewer.session.shown[0].pose
    still = registered.picture()
    page.locator("#by-hand").click()
    assert changed_fraction(still, registered.picture()) > 0.002  # handles to drag
    shifts = []
    for kind in ("arrow", "ring"):
        last = viewer.session.shown[viewer.session.focus].pose
        drag_handle(registered, kind)
        registered.wait("document.querySelector('#pose').selectedOptions[0].textContent === 'by hand'")
        registered.settle()
        shifts.append(errors(viewer.session.shown[viewer.session.focus].pose, last))
    assert viewer.session.shown[-1].name == BY_HAND
    assert shifts[0][0] < 1e-3 < 0.05 < shifts[0][1]  # degrees, then the shift
    assert shifts[1][0] > 0.2
    assert "pairs within the inlier threshold" in page.locator("#count").inner_text()
    registered.keep("viewer-by-hand.png")
    page.locator("#refine").click()
    registered.wait("document.querySelector('#pose').options[0].textContent === 'refined'")
    assert viewer.session.shown[0].name == REFINED
    turn, shift = errors(viewer.session.shown[0].pose, before)
    assert turn < 0.1
    assert shift < 0.02
    assert not page.locator("#by-hand").is_checked()


def drag_handle(watched: Watched, kind: str) -> None:
    """Drag a handle of the source by a few pixels, from a place where no other handle is near."""
    start = watched.page.evaluate(
        """kind => {
          const box = document.querySelector('#view').getBoundingClientRect();
          for (let y = 20; y < box.height - 20; y += 10) for (let x = 20; x < box.width - 20; x += 10) {
            const handle = plueckernetView.grab(x, y);
            if (handle && handle.kind === kind && handle.pixels < 5) return [box.x + x, box.y + y];
          }
        }""",
        kind,
    )
    mouse = watched.page.mouse
    mouse.move(*start)
    mouse.down()
    mouse.move(start[0] + 6, start[1] - 6, steps=3)
    mouse.up()


def test_candidates_of_a_failure_can_be_shown(viewer: Viewer, registered: Watched) -> None:
    page = registered.page
    viewer.session.take(failure())
    viewer._tell()
    page.get_by_text("Not registered: ").wait_for()
    first = registered.picture()
    page.get_by_role("button", name="Show candidate 2").click()
    assert page.locator("#pose").input_value() == "1"
    assert changed_fraction(first, registered.picture()) > 0.01
    assert "pairs within the inlier threshold" in page.locator("#count").inner_text()


def test_it_follows_the_colours_of_the_system_and_fits_a_phone(viewer: Viewer, registered: Watched) -> None:
    page = registered.page
    light = registered.picture()
    page.emulate_media(color_scheme="dark")
    dark = registered.picture()
    assert light.mean() > 200
    assert dark.mean() < 60
    assert drawn_fraction(dark) > 0.02
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert drawn_fraction(registered.picture()) > 0.02
