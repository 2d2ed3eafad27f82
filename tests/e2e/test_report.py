"""The report in a real browser: it opens from a file, draws, and does what its controls say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.e2e.browser import Watched, changed_fraction, chromium, drawn_fraction
from tests.e2e.results import demo, failure

from plueckernet.geometry import LineSet, Pose
from plueckernet.report import About, write_report


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> tuple[Path, Path]:
    """The reports of a success and of a failure."""
    folder = tmp_path_factory.mktemp("reports")
    paths = folder / "good.html", folder / "bad.html"
    result, source, target = demo()
    for path, shown in zip(paths, (result, failure()), strict=True):
        write_report(path, shown, source, target, About("house_monday.obj", "house_friday.txt"))
    return paths


@pytest.fixture
def open_page(browser, request):
    """Open a report from its file; afterwards there must be no errors and no network requests."""
    opened = []

    def opener(path: Path, **options) -> Watched:
        watched = Watched(browser, **options)
        opened.append(watched)
        watched.page.goto(path.as_uri())
        return watched

    yield opener
    for watched in opened:
        watched.context.close()
        assert watched.errors == []
        assert [url for url in watched.requests if not url.startswith("file:")] == []


def test_it_opens_and_draws_both_maps(open_page, reports) -> None:
    good = open_page(reports[0])
    assert good.page.locator(".badge").inner_text() == "Registered"
    assert 0.02 < drawn_fraction(good.seen()) < 0.5
    assert 0.02 < drawn_fraction(good.picture()) < 0.5
    good.page.select_option("#colour", "map")
    red, _, blue = good.picture().transpose(2, 0, 1)
    assert (red - blue > 60).mean() > 0.005  # the source is orange
    assert (blue - red > 60).mean() > 0.005  # the target is blue
    good.page.select_option("#colour", "residual")
    good.keep("report.png")


def test_toggles_change_the_picture_and_back(open_page, reports) -> None:
    good = open_page(reports[0])
    first = good.picture()
    for toggle in ("source", "target", "matches", "unmatched", "ellipsoid"):
        box = good.page.locator(f"#show-{toggle}")
        was = box.is_checked()
        box.click()
        assert changed_fraction(first, good.picture()) > 0.002, toggle
        box.click()
        assert box.is_checked() == was
        assert changed_fraction(first, good.picture()) == 0, toggle
    for toggle in ("source", "target"):
        good.page.locator(f"#show-{toggle}").click()
    assert drawn_fraction(good.picture()) < 0.1 * drawn_fraction(first) + 0.02  # only the grid is left


def test_the_slider_takes_the_maps_apart(open_page, reports) -> None:
    good = open_page(reports[0])
    after = good.picture()
    good.page.locator("#progress").fill("0")
    before = good.picture()
    assert changed_fraction(after, before) > 0.05
    good.page.locator("#play").click()
    good.wait("document.getElementById('progress').value === '1'")
    assert changed_fraction(after, good.picture()) == 0


def test_mouse_keys_and_touch_move_the_camera(open_page, reports) -> None:
    good = open_page(reports[0], has_touch=True)
    page, still = good.page, good.picture()
    box = page.locator("#view").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def fit_again() -> None:
        page.locator("#fit").click()
        assert changed_fraction(still, good.picture()) == 0

    for button in ("left", "right"):
        page.mouse.move(x, y)
        page.mouse.down(button=button)
        page.mouse.move(x + 90, y + 40, steps=3)
        page.mouse.up(button=button)
        assert changed_fraction(still, good.picture()) > 0.02, button
        fit_again()
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    assert changed_fraction(still, good.picture()) > 0.02
    fit_again()
    page.locator("#view").focus()
    for keys in ("ArrowLeft", "Shift+ArrowUp", "+", "7"):
        page.keyboard.press(keys)
        assert changed_fraction(still, good.picture()) > 0.02, keys
        page.keyboard.press("0")
        assert changed_fraction(still, good.picture()) == 0
    touch = good.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 40), ("touchMove", 80), ("touchMove", 120)):
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert changed_fraction(still, good.picture()) > 0.02


def test_a_failure_offers_candidates(open_page, reports) -> None:
    bad = open_page(reports[1])
    page = bad.page
    assert page.locator(".badge").inner_text().startswith("Not registered: ")
    assert page.locator("#show-ellipsoid").is_hidden()
    best = bad.picture()
    assert drawn_fraction(best) > 0.01
    bad.keep("report-failed.png")
    buttons = page.locator("button[data-pose]")
    assert buttons.count() > 1
    buttons.nth(1).click()
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    assert buttons.nth(0).get_attribute("aria-pressed") == "false"
    assert page.locator("#pose").input_value() == "1"
    assert changed_fraction(best, bad.picture()) > 0.01
    page.select_option("#pose", "0")
    assert changed_fraction(best, bad.picture()) == 0


def test_light_dark_print_and_phone(open_page, reports) -> None:
    light, dark = (open_page(reports[0], color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.picture().mean() > 200
    assert dark.picture().mean() < 60
    assert drawn_fraction(dark.picture()) > 0.02
    dark.keep("report-dark.png")
    dark.page.emulate_media(media="print")
    dark.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert dark.picture().mean() > 200
    assert dark.page.locator("#play").is_hidden()
    assert dark.page.pdf().startswith(b"%PDF")
    light.page.set_viewport_size({"width": 390, "height": 800})
    assert light.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert drawn_fraction(light.picture()) > 0.02
    light.keep("report-phone.png")


def line_on_screen(picture: np.ndarray) -> tuple[float, float]:
    """A place on a line: the pixel that differs most from the background; the canvas is at the corner of the page."""
    drawn = np.abs(picture - picture[5, 300]).max(-1)[120:500, 100:700]
    row, column = np.unravel_index(drawn.argmax(), drawn.shape)
    return float(column + 100), float(row + 120)


def test_hovering_and_clicking_tell_what_a_line_is(open_page, reports) -> None:
    good = open_page(reports[0])
    page, tip = good.page, good.page.locator("#tip")
    still = good.picture()
    assert tip.is_hidden()
    x, y = line_on_screen(still)
    page.mouse.move(x, y)
    tip.wait_for()
    first, length, partner = tip.inner_text().split("\n")
    assert re.fullmatch(r"(source|target) line \d+", first)
    assert float(length.removeprefix("length ").replace(",", "")) > 0
    assert re.fullmatch(r"[\d.]+ and [\d.]+° from (source|target) line \d+|no partner within the threshold", partner)
    assert 0 < changed_fraction(still, good.picture()) < 0.05  # it is drawn broad
    page.mouse.move(5, 700)
    tip.wait_for(state="hidden")
    page.mouse.click(x, y)
    assert tip.inner_text().startswith(first)


def test_the_largest_distance_filters_the_inliers(open_page, reports) -> None:
    good = open_page(reports[0])
    page, count = good.page, len(demo()[0].inliers)
    assert page.locator("#count").inner_text() == f"{count} inliers"
    first = good.picture()
    page.locator("#threshold").fill("0.3")
    text = page.locator("#count").inner_text()
    assert int(text.split()[0]) < count
    assert f"of {count} inliers are at most" in text
    assert changed_fraction(first, good.picture()) > 0.002


def test_the_up_axis_is_found_or_chosen(open_page, reports) -> None:
    good = open_page(reports[0])
    first, axes = good.picture(), good.page.locator("#axes").inner_html()
    good.page.select_option("#up", "-x")
    good.settle()
    assert changed_fraction(first, good.picture()) > 0.02
    assert good.page.locator("#axes").inner_html() != axes
    good.page.select_option("#up", "found")
    assert changed_fraction(first, good.picture()) == 0


def test_maps_in_any_unit_look_the_same(open_page, reports, tmp_path) -> None:
    result, *maps = demo()
    here = open_page(reports[0]).picture()
    for scale in (1e-3, 1e6):
        source, target = (LineSet.from_segments(side.endpoints * scale) for side in maps)
        scaled = replace(
            result,
            target_T_source=Pose(result.target_T_source.rotation, result.target_T_source.translation * scale),
            residuals=result.residuals * torch.tensor([scale, 1.0]).double(),
            settings=result.settings | {"inlier_distance": result.settings["inlier_distance"] * scale},
            covariance=None,
        )
        write_report(tmp_path / "scaled.html", scaled, source, target)
        assert changed_fraction(open_page(tmp_path / "scaled.html").picture(), here) < 0.01, scale


def test_every_control_has_an_accessible_name(open_page, reports) -> None:
    page = open_page(reports[0]).page
    nameless = page.evaluate("""[...document.querySelectorAll("input, select, button, canvas, [role=meter], svg")]
        .filter(node => !node.getAttribute("aria-label") && !node.labels?.length && !node.textContent.trim())
        .map(node => node.outerHTML)""")
    assert nameless == []
    reached = set()
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"view", "fit", "play", "progress", "show-source", "colour", "up"} <= reached


def test_without_webgl_it_says_so(browser, reports) -> None:
    watched = Watched(browser)
    watched.page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    watched.page.goto(reports[0].as_uri())
    assert "no WebGL" in watched.page.locator("#message").inner_text()
    assert watched.page.locator(".badge").inner_text() == "Registered"
    watched.context.close()
