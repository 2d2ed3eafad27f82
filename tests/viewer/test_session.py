"""The state of the viewer, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.cli.helpers import chaos, house
from tests.estimation.lines_for_tests import errors

from plueckernet.errors import FormatError, InputError
from plueckernet.geometry import Pose
from plueckernet.io import write_lines
from plueckernet.viewer.session import BY_HAND, REFINED, Session

TRUTH = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)
NUDGE = Pose.exp(torch.tensor([0.01, -0.02, 0.01, 0.05, -0.04, 0.03], dtype=torch.float64))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    write_lines(tmp_path / "a.obj", house())
    write_lines(tmp_path / "b.txt", TRUTH @ house())
    session = Session()
    session.load("source", tmp_path / "a.obj")
    session.load("target", tmp_path / "b.txt")
    return session


def test_registering_shows_the_pose_and_its_inliers(session: Session) -> None:
    stages: list[str] = []
    result = session.register(stages.append)
    assert stages[0] == "prepare"
    names = [pose.name for pose in session.shown]
    assert names == ["registered", *(f"alternative {i + 1}" for i in range(len(result.alternatives)))]
    assert len(session.shown[0].pairs) == len(result.inliers) == result.evidence.inliers


def test_a_pose_by_hand_is_refined_and_becomes_the_result(session: Session) -> None:
    for _ in range(2):  # the second replaces the first
        session.move_by_hand(NUDGE @ TRUTH)  # without registering first
    assert [pose.name for pose in session.shown] == [BY_HAND]
    assert session.result is None
    drawing = session.drawing()
    assert drawing is not None
    assert drawing["poses"][0]["name"] == BY_HAND
    result = session.refine(0)
    assert session.result is result
    assert session.shown[0].name == REFINED
    turn, shift = errors(session.shown[0].pose, TRUTH)
    assert turn < 1e-3
    assert shift < 1e-3
    aligned = session.aligned().endpoints
    torch.testing.assert_close(aligned, (TRUTH @ house()).endpoints, atol=1e-3, rtol=0)
    assert "Registered" in session.report()
    assert ">refined</button></td>" in session.cards()


def test_a_wrong_pose_is_not_refined(session: Session) -> None:
    result = session.register()
    session.move_by_hand(Pose(TRUTH.rotation, TRUTH.translation + 1e3))
    with pytest.raises(InputError, match="no pose near this one was accepted"):
        session.refine(session.focus)
    assert session.result is result


def test_another_map_drops_the_result(session: Session, tmp_path: Path) -> None:
    session.register()
    write_lines(tmp_path / "c.npy", chaos(20, seed=1))
    session.load("source", tmp_path / "c.npy")
    assert (session.result, session.shown, session.cards()) == (None, [], "")


def test_a_bad_file_changes_nothing(session: Session, tmp_path: Path) -> None:
    result = session.register()
    (tmp_path / "bad.txt").write_text("1 2 3 4 5 6\n1 2 three 4 5 6\n")
    with pytest.raises(FormatError, match=r"bad\.txt:2"):
        session.load("source", tmp_path / "bad.txt")
    assert session.result is result


def test_actions_without_two_maps_are_refused() -> None:
    session = Session()
    for action in (session.register, lambda: session.refine(0), session.report, session.aligned):
        with pytest.raises(InputError, match=r"register|two maps"):
            action()
