"""The summary in the terminal uses the texts of the report."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.cli.helpers import house

from plueckernet.cli.summary import result_rows
from plueckernet.estimation.judgement import Status
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import Pose
from plueckernet.registration import register
from plueckernet.report.words import as_sentence, verdict
from plueckernet.result import RegistrationResult, RunRecord

TRUTH = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)


@pytest.fixture(scope="module")
def result() -> RegistrationResult:
    return register(house(), TRUTH @ house())


@pytest.mark.parametrize(("status", "style"), [("success", "green"), ("ambiguous", "yellow"), ("failed", "red")])
def test_status_verdict_and_reason(result: RegistrationResult, status: str, style: str) -> None:
    shown = replace(result, status=Status(status), confidence=0.72)
    rows, text = dict(result_rows(shown)), verdict(shown)
    assert rows["status"] == f"[bold {style}]{text.headline}[/]"
    assert rows["verdict"] == text.summary
    assert rows["reason"] == as_sentence(shown.reason)
    assert rows.get("next", "") == text.advice


def test_a_result_without_a_candidate_has_no_noise() -> None:
    failed = RegistrationResult.without_pose("the map is empty", (0, 3), RunRecord("none", RegistrationSettings(), 0))
    rows = dict(result_rows(failed))
    assert rows["verdict"] == "No pose was accepted, and no candidate was found."
    assert rows["reason"] == "The map is empty."
    assert "noise" not in rows


def test_a_warning_is_a_row(result: RegistrationResult) -> None:
    assert "warning" not in dict(result_rows(result))
    rows = dict(result_rows(replace(result, warnings=("The source looks larger.",))))
    assert rows["warning"] == "[bold yellow]The source looks larger.[/]"
    assert rows["next"].startswith("Check the units")
