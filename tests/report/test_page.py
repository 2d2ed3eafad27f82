"""The report as a file: whole, harmless, the same every time, small, and true to the result."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli.helpers import chaos, house

from plueckernet.data.protocols import ScanProtocol, unrelated_pair
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import rotation_from_quaternion
from plueckernet.registration import register
from plueckernet.report import About, report_html, write_report
from plueckernet.report.scene import looks

TRUTH = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)
FAR = Pose(torch.eye(3, dtype=torch.float64), torch.tensor([4e5, 6e6, 100.0], dtype=torch.float64))


@pytest.fixture(scope="module")
def pair() -> tuple[LineSet, LineSet]:
    return house(), TRUTH @ house()


@pytest.fixture(scope="module")
def result(pair):
    return register(*pair)


@pytest.fixture(scope="module")
def failure():
    """Maps of two houses, and what came closest."""
    maps = unrelated_pair(make_scene("indoor", 3), make_scene("indoor", 4), ScanProtocol(overlap=0.6), 0)
    return register(*maps), *maps


class Tags(HTMLParser):
    """Everything opened and closed, and all text outside scripts and styles."""

    EMPTY = ("meta", "input", "br", "line", "rect")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.EMPTY:
            return
        while self.open and self.open[-1] in ("th", "td") and self.open[-1] != tag:
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data + " "


def drawn(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="scene">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def numbers(text: str, kind: str = "<f4") -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def moved(motion: dict[str, Any], points: np.ndarray) -> np.ndarray:
    turn = rotation_from_quaternion(torch.tensor(motion["quaternion"], dtype=torch.float64)).numpy()
    return points @ turn.T + np.array(motion["translation"])


def test_the_page_is_whole_and_says_it_in_words(result, pair) -> None:
    about = About("monday.obj", "friday.txt", "plueckernet register monday.obj friday.txt", ("source: 1 left out",))
    page = report_html(result, *pair, about)
    tags = Tags(page)
    assert tags.open == []
    assert len(tags.ids) == len(set(tags.ids))
    for part in (
        "Registered", "monday.obj", "friday.txt", "almost certainly right", "confidence above 0.99", "3σ ellipsoid",
        "To repeat it", "plueckernet register monday.obj friday.txt", "source: 1 left out", "position_tolerance",
        "torch", "judge", "Poses that were considered", "the tolerance",
    ):  # fmt: skip
        assert part in tags.text, part
    assert "{{" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_nothing_is_loaded_from_elsewhere(result, pair) -> None:
    page = report_html(result, *pair)
    assert "default-src 'none'" in page
    assert [value for name, value in Tags(page).attributes if name in ("src", "href")] == []
    assert not re.search(r"https?://|url\(|@import", page)


def test_names_do_no_harm(result, pair) -> None:
    evil = '<script>alert("1")</script>&{{scene}}'
    page = report_html(result, *pair, About(evil, evil, evil, (evil,)))
    assert "<script>alert" not in page
    assert evil in Tags(page).text
    assert len(re.findall("<script", page)) == 2


def test_the_same_result_gives_the_same_page(pair) -> None:
    pages = [report_html(replace(register(*pair), timings={"match": 0.5}), *pair) for _ in range(2)]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("place", [Pose.identity(), FAR], ids=["near", "in a national grid"])
def test_what_is_drawn_is_what_was_found(pair, place) -> None:
    source, target = pair[0], place @ pair[1]
    result = register(source, target)
    data = drawn(report_html(result, source, target))
    assert data["nearer"] is (place is FAR)
    ends = [numbers(data[side]["segments"]).reshape(-1, 2, 3).astype(float) for side in ("source", "target")]
    first = data["poses"][0]
    pairs = numbers(first["pairs"], "<u4").reshape(-1, 2)
    assert len(pairs) == len(result.inliers) > 50
    lengths = np.linalg.norm(ends[1][:, 1] - ends[1][:, 0], axis=-1)
    assert (np.diff(lengths) <= 1e-5).all()  # the longest first
    on = moved(first, ends[0])[pairs[:, 0]]
    to = ends[1][pairs[:, 1]]
    flipped = np.minimum(abs(on - to).max((1, 2)), abs(on[:, ::-1] - to).max((1, 2)))
    assert np.quantile(flipped, 0.9) < 1e-3  # float32 near the middle of the maps, wherever they are
    joins = numbers(first["joins"]).reshape(-1, 2, 3).astype(float)
    assert abs(moved(first, joins[:, 0]) - joins[:, 1]).max() < 1e-3


def test_alternatives_come_with_the_pairs_that_coincide(failure) -> None:
    result, source, target = failure
    shown = looks(result, source, target)
    assert [look.name for look in shown[:2]] == ["closest pose", "next pose 1"]
    assert len(shown) == len(result.alternatives) > 1
    for look in shown[1:]:
        assert len(look.pairs) >= 3
        assert look.residuals[:, 0].max() < result.settings["position_tolerance"]


def test_a_failure_says_why_and_offers_what_came_closest(failure) -> None:
    result, source, target = failure
    page = report_html(result, source, target)
    text = Tags(page).text
    assert "Not registered" in text
    assert result.reason[1:] in text
    assert "deserves belief" in text
    assert page.count('data-pose="') == len(result.alternatives)
    assert drawn(page)["ellipsoid"] is None


def test_no_pose_at_all_still_makes_a_page() -> None:
    source, target = chaos(60, seed=1), chaos(60, seed=2)
    page = report_html(register(source, target), source, target)
    assert drawn(page)["poses"] == []
    assert "no pose explains three lines" in Tags(page).text.lower()


def test_infinite_lines(pair) -> None:
    source, target = (side.infinite() for side in pair)
    result = register(source, target)
    data = drawn(report_html(result, source, target))
    ends = numbers(data["target"]["segments"])
    assert ends.size == 6 * len(target)
    assert np.isfinite(ends).all()


def test_many_lines_make_a_small_file_and_more_are_left_out_in_words(result, tmp_path, monkeypatch) -> None:
    crowd = chaos(2000, seed=3)
    rows = torch.arange(2000)
    many = replace(
        result,
        inliers=torch.stack([rows, rows], -1),
        residuals=torch.full((2000, 2), 0.01, dtype=torch.float64),
        num_lines=(2000, 2000),
    )
    write_report(tmp_path / "report.html", many, crowd, crowd)
    assert (tmp_path / "report.html").stat().st_size < 1e6
    monkeypatch.setattr("plueckernet.report.frame.MOST_DRAWN", 500)
    monkeypatch.setattr("plueckernet.report.page.MOST_DRAWN", 500)
    page = report_html(many, crowd, crowd)
    assert "the longest 500 of 2,000 lines of the source and the longest 500" in Tags(page).text
    data = drawn(page)
    assert numbers(data["source"]["segments"]).size == 6 * 500
    assert len(numbers(data["poses"][0]["pairs"], "<u4")) == 2 * 500
