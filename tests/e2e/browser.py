"""A real browser for the tests: Debian's Chromium, headless, with WebGL in software."""

from __future__ import annotations

import base64
import io
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

REQUIRED = "PLUECKERNET_BROWSER"  # set where the absence of a browser is a failure, not a reason to skip
SCREENSHOTS = "PLUECKERNET_SCREENSHOTS"  # a folder to keep pictures in, such as docs/images
_FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--force-device-scale-factor=1",
]  # fmt: skip


@contextmanager
def chromium() -> Iterator[object]:
    """A started browser; without one the test is skipped, with the reason."""
    program = shutil.which("chromium")
    if program is None:
        reason = "there is no Chromium: apt-get install chromium"
        pytest.fail(reason) if os.environ.get(REQUIRED) else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        yield browser
        browser.close()


class Watched:
    """A page that records its errors and network requests."""

    def __init__(self, browser, **options) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(180_000)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def settle(self) -> None:
        """Wait until the page has drawn what was asked for, and all lines of it."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.wait("document.querySelector('canvas').dataset.frame === 'still'")

    def seen(self, selector: str = "canvas") -> np.ndarray:
        """A screenshot of an element, as (height, width, 3) numbers."""
        self.settle()
        box = self.page.locator(selector).first.bounding_box()
        # A locator's own screenshot waits until nothing moves, which may never happen on a slow machine.
        return _pixels(self.page.screenshot(clip=box))

    def picture(self) -> np.ndarray:
        """The canvas without the elements over it."""
        self.settle()
        address = self.page.evaluate("document.querySelector('canvas').toDataURL()")
        return _pixels(base64.b64decode(address.split(",")[1]))

    def wait(self, condition: str) -> None:
        """Wait until an expression is true; playwright's own wait needs eval, which the page forbids."""
        end = time.monotonic() + 180
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"never became true: {condition}"
            self.page.wait_for_timeout(20)

    def keep(self, name: str) -> None:
        """Save a screenshot for the documentation if the environment asks for it."""
        folder = os.environ.get(SCREENSHOTS)
        if folder:
            self.settle()
            shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
            few = shot.quantize(255, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
            few.save(Path(folder) / name, optimize=True)


def _pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=int)


def drawn_fraction(picture: np.ndarray) -> float:
    """Fraction of the pixels that clearly differ from the most frequent colour."""
    colours, counts = np.unique(picture @ [65536, 256, 1], return_counts=True)
    most = int(colours[counts.argmax()])
    background = [most >> 16, most >> 8 & 255, most & 255]
    return float((abs(picture - background).max(-1) > 24).mean())


def changed_fraction(first: np.ndarray, second: np.ndarray) -> float:
    """Fraction of the pixels that clearly differ."""
    return float((abs(first - second).max(-1) > 24).mean())
