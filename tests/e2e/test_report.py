"""The report in a real browser: it opens from a file, draws, and does what its controls say."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.helpers import FRIDAY, MONDAY, run
from tests.e2e.browser import Watched, changed_fraction, chromium, drawn_fraction

from plueckernet.data.protocols import ScanProtocol, unrelated_pair
from plueckernet.data.scenes import make_scene
from plueckernet.io import write_lines


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> tuple[Path, Path]:
    """The reports of a success and of a failure."""
    folder = tmp_path_factory.mktemp("reports")
    good, bad = folder / "good.html", folder / "bad.html"
    assert run("register", MONDAY, FRIDAY, "--quiet", "--report", good) == 0
    maps = unrelated_pair(make_scene("indoor", 3), make_scene("indoor", 4), ScanProtocol(overlap=0.6), 0)
    for name, lines in zip("ab", maps, strict=True):
        write_lines(folder / f"{name}.obj", lines)
    assert run("register", folder / "a.obj", folder / "b.obj", "--quiet", "--report", bad) == 1
    return good, bad


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


def test_every_control_has_an_accessible_name(open_page, reports) -> None:
    page = open_page(reports[0]).page
    nameless = page.evaluate("""[...document.querySelectorAll("input, select, button, canvas, [role=meter], svg")]
        .filter(node => !node.getAttribute("aria-label") && !node.labels?.length && !node.textContent.trim())
        .map(node => node.outerHTML)""")
    assert nameless == []
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"view", "fit", "play", "progress", "show-source", "colour"} <= reached


def test_without_webgl_it_says_so(browser, reports) -> None:
    watched = Watched(browser)
    watched.page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    watched.page.goto(reports[0].as_uri())
    assert "no WebGL" in watched.page.locator("#message").inner_text()
    assert watched.page.locator(".badge").inner_text() == "Registered"
    watched.context.close()
