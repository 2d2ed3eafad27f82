"""`plueckernet view`: how to open the page, and bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.helpers import MONDAY, run
from tests.cli.test_register import room_cloud
from tests.io.buildings import house_gml

from plueckernet.cli.view import access_hints, opens_by_itself
from plueckernet.viewer import Viewer


def test_local_address_and_how_to_forward_the_port() -> None:
    local, over_ssh = access_hints("127.0.0.1", 8081, "http://127.0.0.1:8081/token/")
    assert "http://127.0.0.1:8081/token/" in local
    assert "ssh -L 8081:127.0.0.1:8081" in over_ssh


def test_a_public_address_has_a_warning() -> None:
    address, warning = access_hints("192.0.2.7", 8080, "http://192.0.2.7:8080/token/")
    assert "http://192.0.2.7:8080/token/" in address
    assert "not encrypted" in warning


@pytest.mark.parametrize(
    ("host", "platform", "environment", "opens"),
    [
        ("127.0.0.1", "linux", {"DISPLAY": ":0"}, True),
        ("localhost", "linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("127.0.0.1", "linux", {}, False),
        ("127.0.0.1", "linux", {"DISPLAY": ":0", "SSH_CONNECTION": "192.0.2.7 1 192.0.2.8 22"}, False),
        ("127.0.0.1", "darwin", {}, True),
        ("0.0.0.0", "darwin", {}, False),
    ],
)
def test_the_page_opens_where_the_user_can_see_it(host, platform, environment, opens) -> None:
    assert opens_by_itself(host, platform, environment) is opens


def test_the_page_is_opened_and_the_viewer_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("plueckernet.viewer.Viewer.wait", interrupted)
    assert run("view", MONDAY, "--open", "--port", "18190") == 0
    assert run("view", MONDAY, "--no-open", "--port", "18190") == 0
    assert len(opened) == 1
    assert opened[0].startswith("http://127.0.0.1:18190/")


def test_a_bad_file_on_the_command_line_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("1 2 three\n")
    assert run("view", MONDAY, bad) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {bad}:1: ")
    assert captured.out == ""


def test_the_format_and_its_options_are_those_of_register(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[tuple[str, int]] = []

    def interrupted(viewer: Viewer) -> None:
        shown.extend((report.format, len(report.lines)) for report in viewer.session.maps.values())
        raise KeyboardInterrupt

    monkeypatch.setattr("plueckernet.viewer.Viewer.wait", interrupted)
    (tmp_path / "city.gml").write_text(house_gml())
    cloud = room_cloud(tmp_path / "cloud.txt")
    command = ("view", cloud, tmp_path / "city.gml", "--no-open", "--port", "18192", "--lod", "3")
    assert run(*command, "--from", "text", "--from", "gml") == 0
    assert [name for name, _ in shown] == ["point cloud", "gml"]
    assert "extracting its lines first" in capsys.readouterr().err
