"""The report as a file: valid, safe, reproducible, small, and consistent with the result."""

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
from plueckernet.estimation.judgement import Status
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.geometry.pose import rotation_from_quaternion
from plueckernet.registration import register
from plueckernet.report import About, report_html, scene, write_report
from plueckernet.report.scene import shown_poses
from plueckernet.report.words import confidence_digits, required_confidence, two_digits, verdict
from plueckernet.result import Alternative

TRUTH = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)
NATIONAL_GRID = Pose(torch.eye(3, dtype=torch.float64), torch.tensor([4e5, 6e6, 100.0], dtype=torch.float64))


@pytest.fixture(scope="module")
def pair() -> tuple[LineSet, LineSet]:
    return house(), TRUTH @ house()


@pytest.fixture(scope="module")
def result(pair):
    return register(*pair)


@pytest.fixture(scope="module")
def failure():
    """The failed registration of the maps of two different houses."""
    maps = unrelated_pair(make_scene("indoor", 3), make_scene("indoor", 4), ScanProtocol(overlap=0.6), 0)
    return register(*maps), *maps


class Tags(HTMLParser):
    """The tags of a page, and its text outside scripts and styles."""

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
    script = re.search(r'<script type="application/json" id="scene">(.*?)</script>', page, re.DOTALL)
    assert script is not None
    return json.loads(script[1])


def numbers(text: str, kind: str = "<f4") -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def moved(motion: dict[str, Any], points: np.ndarray) -> np.ndarray:
    turn = rotation_from_quaternion(torch.tensor(motion["quaternion"], dtype=torch.float64)).numpy()
    return points @ turn.T + np.array(motion["translation"])


def test_the_page_is_complete(result, pair) -> None:
    about = About("monday.obj", "friday.txt", "plueckernet register monday.obj friday.txt", ("source: 1 left out",))
    page = report_html(result, *pair, about)
    tags = Tags(page)
    assert tags.open == []
    assert len(tags.ids) == len(set(tags.ids))
    for text in (
        "Registered", "monday.obj", "friday.txt", verdict(result).sentence, "confidence is above 0.99", "3σ ellipsoid",
        "Command", "plueckernet register monday.obj friday.txt", "source: 1 left out", "Settings and versions",
        "torch", "judge", "Poses compared", "inlier threshold", "score above chance", "explained fraction",
        "runner-up score ratio", "lateral support", "whole lines", "matcher agreement",
    ):  # fmt: skip
        assert text in tags.text, text
    assert "{{" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_nothing_is_loaded_from_elsewhere(result, pair) -> None:
    page = report_html(result, *pair)
    assert "default-src 'none'" in page
    assert [value for name, value in Tags(page).attributes if name in ("src", "href")] == []
    assert not re.search(r"https?://|url\(|@import", page)


def test_names_are_escaped(result, pair) -> None:
    evil = '<script>alert("1")</script>&{{scene}}'
    page = report_html(result, *pair, About(evil, evil, evil, (evil,)))
    assert "<script>alert" not in page
    assert evil in Tags(page).text
    assert len(re.findall("<script", page)) == 2


def test_the_same_result_gives_the_same_page(pair) -> None:
    pages = [report_html(replace(register(*pair), timings={"match": 0.5}), *pair) for _ in range(2)]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("offset", [Pose.identity(), NATIONAL_GRID], ids=["near", "in a national grid"])
def test_the_drawing_shows_the_result(pair, offset) -> None:
    source, target = pair[0], offset @ pair[1]
    result = register(source, target)
    data = drawn(report_html(result, source, target))
    assert data["shifted"] is (offset is NATIONAL_GRID)
    ends = [numbers(data[side]["segments"]).reshape(-1, 2, 3).astype(float) for side in ("source", "target")]
    first = data["poses"][0]
    pairs = numbers(first["pairs"], "<u4").reshape(-1, 2)
    assert len(pairs) == len(result.inliers) > 50
    lengths = np.linalg.norm(ends[1][:, 1] - ends[1][:, 0], axis=-1)
    assert (np.diff(lengths) <= 1e-5).all()  # the longest first
    moved_ends = moved(first, ends[0])[pairs[:, 0]]
    target_ends = ends[1][pairs[:, 1]]
    flipped_error = abs(moved_ends[:, ::-1] - target_ends).max((1, 2))
    error = np.minimum(abs(moved_ends - target_ends).max((1, 2)), flipped_error)
    assert np.quantile(error, 0.9) < 1e-3  # float32 near the centre of the maps, wherever they are
    rows = [numbers(data[side]["rows"], "<u4") for side in ("source", "target")]
    named = np.stack([rows[side][pairs[:, side]] for side in range(2)], -1)
    assert named.tolist() == result.inliers.tolist()  # hovering names lines as the JSON does
    np.testing.assert_allclose(numbers(first["residuals"]).reshape(-1, 2), result.residuals.numpy(), rtol=1e-5)


def test_every_count_of_inliers_is_the_same(failure) -> None:
    """Verdict, table and picture count what the evidence counts; pairs of other poses are not called inliers."""
    result, source, target = failure
    page = report_html(result, source, target)
    assert f"{len(result.inliers)} lines coincide" in page
    assert f"Residuals of the {len(result.inliers)} inliers" in page
    poses = drawn(page)["poses"]
    assert len(numbers(poses[0]["residuals"])) == 2 * result.evidence.inliers
    assert [pose["inliers"] for pose in poses] == [True] + [False] * (len(poses) - 1)
    rows = re.findall(r">candidate \d+</button></td>(.*?)</tr>", page)
    inliers = [int(re.findall(r">([^<]*)</td>", row)[2]) for row in rows]
    assert inliers == [other.evidence.inliers for other in result.alternatives]


def test_alternatives_come_with_confidence_and_residuals(failure) -> None:
    result, source, target = failure
    second = shown_poses(result, source, target)[1]
    distance, angle = np.median(second.residuals, axis=0)
    page = report_html(result, source, target)
    assert f"<td class=number>{two_digits(distance)}</td><td class=number>{two_digits(angle)}°</td>" in page
    assert confidence_digits(result.alternatives[1].confidence).replace("below ", "&lt;") in page
    first = re.search(r">candidate 1</button></td><td class=number>(.*?)</td>", page)
    assert first is not None
    assert first[1] == confidence_digits(result.confidence)  # as the verdict says


def test_alternatives_come_with_the_pairs_that_coincide(failure) -> None:
    result, source, target = failure
    shown = shown_poses(result, source, target)
    assert [pose.name for pose in shown[:2]] == ["candidate 1", "candidate 2"]
    assert len(shown) == len(result.alternatives) > 1
    for pose in shown[1:]:
        assert len(pose.pairs) >= 3
        # The inlier threshold is that of the mean of both distances and of the angle together.
        assert np.median(pose.residuals[:, 0]) < result.settings["inlier_distance"]


def test_a_failure_has_a_reason_and_candidates(failure) -> None:
    result, source, target = failure
    result = replace(result, confidence=0.2)  # whatever it is: the advice depends on it
    page = report_html(result, source, target)
    text = Tags(page).text
    assert "Not registered" in text
    assert result.reason[1:] in text
    assert "No pose was accepted" in text
    assert f"candidates 1 to {len(result.alternatives)} in the table below" in text
    assert "a larger  --inlier-threshold  may help" in text  # an element of its own
    assert "correct:" not in text
    assert '<body class="failed">' in page
    assert page.count('data-pose="') == len(result.alternatives)
    assert drawn(page)["ellipsoid"] is None


def test_the_coincidence_of_all_poses_is_computed_by_one_finder(failure, monkeypatch) -> None:
    made = []

    class CountedFinder(scene.CoincidenceFinder):
        def __init__(self, *arguments):
            made.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(scene, "CoincidenceFinder", CountedFinder)
    assert len(shown_poses(*failure)) > 2
    assert len(made) == 1


@pytest.mark.parametrize("status", Status)
def test_badge_and_confidence_bar_have_the_colour_of_the_status(result, pair, status) -> None:
    """Their only colour is the one that the class of the body selects, whatever the confidence is."""
    shown = replace(result, status=status, confidence=0.95 if status is Status.SUCCESS else 0.45)
    page = report_html(shown, *pair)
    assert f'<body class="{status}">' in page
    assert f'<span class="badge">{verdict(shown).headline}</span>' in page
    style = page[page.index("<style>") : page.index("</style>")]
    for selector in (r"\.badge", r"\.confidence span"):
        (rule,) = re.findall(rf"^{selector} {{(.*?)}}", style, re.MULTILINE | re.DOTALL)
        assert re.findall(r"(?:color|background): var\(--(\w+)", rule)[0] == "status"
    tone = {"success": "good", "ambiguous": "fair", "failed": "bad"}[status]
    assert f".{status} {{ --status: var(--{tone});" in style


@pytest.mark.parametrize(
    ("status", "sure", "bar", "mark"),
    [
        ("success", 0.95, True, True), ("success", 0.7, True, False), ("failed", 0.7, True, True),
        ("failed", 0.95, False, False), ("ambiguous", 0.3, True, False), ("ambiguous", 0.95, False, False),
    ],
)  # fmt: skip
def test_a_bar_is_drawn_only_if_it_agrees_with_the_status(result, pair, status, sure, bar, mark) -> None:
    others = shown_poses(result, *pair)[:1] * 2
    alternatives = tuple(Alternative(pose.pose, 0.0, result.evidence) for pose in others)
    shown = replace(result, status=Status(status), confidence=sure, alternatives=alternatives)
    page = report_html(shown, *pair)
    assert ('role="meter"' in page) is bar
    assert (f'<i style="left:calc(100% * {required_confidence(shown):.4f})">' in page) is mark


def test_warnings_and_advice_are_on_the_page(result, pair) -> None:
    page = report_html(replace(result, warnings=("The source is <larger>.",)), *pair)
    assert '<p class="warning">The source is &lt;larger&gt;.</p>' in page
    assert "<b>Next:</b> Check the units" in page
    assert 'class="warning"' not in report_html(result, *pair)


def test_an_ambiguous_pose_is_not_called_registered(result, pair) -> None:
    assert "registered" not in Tags(report_html(replace(result, status=Status.AMBIGUOUS), *pair)).text


def test_a_result_without_candidates_makes_a_page() -> None:
    source, target = chaos(60, seed=1), chaos(60, seed=2)
    result = register(source, target, settings=RegistrationSettings(coarser=1.0))
    page = report_html(result, source, target)
    assert drawn(page)["poses"] == []
    assert "no candidate was found" in Tags(page).text
    assert '<label for="progress" id="after">after</label>' in page
    assert result.reason[1:] in Tags(page).text
    assert 'role="meter"' not in page


def test_a_source_of_another_scale_is_drawn_as_large_as_in_the_target(result, pair) -> None:
    small = LineSet.from_segments(pair[0].endpoints / 4)
    scaled = replace(result, target_T_source=Similarity.from_pose(result.target_T_source, 4.0))
    page, plain = report_html(scaled, small, pair[1]), report_html(result, *pair)
    assert "<dt>scale</dt><dd>4</dd>" in page
    assert "<dt>scale</dt>" not in plain
    there, here = (drawn(text)["source"]["segments"] for text in (page, plain))
    np.testing.assert_allclose(numbers(there), numbers(here), atol=1e-5)


def test_infinite_lines(pair) -> None:
    source, target = (side.infinite() for side in pair)
    result = register(source, target)
    data = drawn(report_html(result, source, target))
    ends = numbers(data["target"]["segments"])
    assert ends.size == 6 * len(target)
    assert np.isfinite(ends).all()


def test_large_maps_make_a_small_file_that_names_what_is_not_drawn(result, tmp_path, monkeypatch) -> None:
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
    monkeypatch.setattr("plueckernet.report.frame.MAX_DRAWN_LINES", 500)
    monkeypatch.setattr("plueckernet.report.page.MAX_DRAWN_LINES", 500)
    page = report_html(many, crowd, crowd)
    assert "the longest 500 of 2,000 lines of the source and the longest 500" in Tags(page).text
    data = drawn(page)
    assert numbers(data["source"]["segments"]).size == 6 * 500
    assert len(numbers(data["poses"][0]["pairs"], "<u4")) == 2 * 500
