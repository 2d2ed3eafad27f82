"""The viewer in a real browser, from two files to an exported result."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from tests.cli.helpers import FRIDAY, MONDAY
from tests.e2e.browser import Watched, changed_share, chromium, drawn_share
from tests.estimation.lines_for_tests import errors

from plueckernet.geometry import Pose
from plueckernet.viewer import Viewer

TRUTH = json.loads((MONDAY.parent / "truth.json").read_text())["target_T_source"]


@pytest.fixture
def viewer():
    made = Viewer(port=18080)
    yield made
    made.stop()


@pytest.fixture
def watched(viewer: Viewer):
    with chromium() as browser:
        made = Watched(browser, accept_downloads=True)
        made.page.goto(f"http://127.0.0.1:{viewer.port}")
        made.page.get_by_role("button", name="Register").wait_for()
        yield made
        made.context.close()
        assert made.errors == []


def until(watched: Watched, condition, what: str) -> None:
    end = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        watched.page.wait_for_timeout(100)


def upload(watched: Watched, place: int, path: Path) -> None:
    watched.page.locator("input[type=file]").nth(place).set_input_files(path)


def exported(watched: Watched, label: str) -> bytes:
    with watched.page.expect_download() as download:
        watched.page.get_by_role("button", name=label).click()
    return Path(download.value.path()).read_bytes()


def test_two_files_are_registered_and_the_result_exported(viewer: Viewer, watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    assert page.get_by_role("button", name="Register").is_disabled()
    bad = tmp_path / "<b>bad.txt"
    bad.write_text("1 2 3 4 5 6\n1 2 three 4 5 6\n")
    upload(watched, 0, bad)
    page.get_by_text("<b>bad.txt:2: ").wait_for()

    upload(watched, 0, MONDAY)
    page.get_by_text("house_monday.obj (obj): 509 segments").wait_for()
    until(watched, lambda: page.get_by_text("bad.txt:2: ").count() == 0, "the complaint goes")
    upload(watched, 1, FRIDAY)
    page.get_by_text("house_friday.txt (txt): 404 segments").wait_for()
    apart = watched.seen()
    assert drawn_share(apart) > 0.01

    page.get_by_role("button", name="Register").click()
    page.get_by_text("Registered", exact=True).wait_for()
    until(watched, lambda: viewer._progress.value == 1.0, "the maps come together")
    assert changed_share(apart, watched.seen()) > 0.01
    for close in page.locator(".mantine-Notification-closeButton").all():
        close.click()
    watched.keep("viewer.png")
    page.get_by_text("pairs at most").wait_for()

    page.get_by_text("Export").click()
    result = json.loads(exported(watched, "Result (JSON)"))
    turn, _ = errors(
        *(Pose.from_matrix(torch.tensor(m, dtype=torch.float64)) for m in (result["target_T_source"], TRUTH))
    )
    assert turn < 0.5
    assert b"<title>Registered: house_monday.obj" in exported(watched, "Report (HTML)")
    assert exported(watched, "Source in the target").count(b"\nl ") == 509


def test_thresholds_toggles_poses_and_hands(viewer: Viewer, watched: Watched) -> None:
    page = watched.page
    viewer.load("source", MONDAY)
    viewer.load("target", FRIDAY)
    viewer.register()
    page.get_by_text("pairs at most").wait_for()
    first = watched.seen()

    row = page.locator("input[inputmode=decimal]").nth(1)
    count = int(page.get_by_text("pairs at most").inner_text().split()[1])
    row.fill("0.2")
    row.press("Enter")
    until(watched, lambda: int(page.get_by_text("pairs at most").inner_text().split()[1]) < count, "fewer inliers")

    page.get_by_label("Unmatched").click()
    until(watched, lambda: not viewer._shown["unmatched"].value, "unmatched lines go")
    assert changed_share(first, watched.seen()) > 0.001

    if len(viewer.session.choices) > 1:
        page.get_by_label("Pose").click()
        page.get_by_role("option", name="alternative 1").click()
        until(watched, lambda: viewer.session.view.name == "alternative 1", "another pose")

    viewer.session.choose("registered")
    viewer._refresh()
    page.get_by_label("Move the source").click()
    gizmo = viewer._stage.gizmo
    until(watched, lambda: gizmo.visible, "handles to drag")
    gizmo.position = gizmo.position + 0.05
    viewer._take_from_hand(None)
    assert viewer.session.view.name == "by hand"
    page.get_by_role("button", name="Refine from here").click()
    until(watched, lambda: viewer.session.view.name == "refined", "the pose by hand is refined")
    turn, _ = errors(viewer.session.view.pose, Pose.from_matrix(torch.tensor(TRUTH, dtype=torch.float64)))
    assert turn < 0.5
