"""Documents are read as they were written; what does not fit is refused by name. Rates are never rounded up."""

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from plueckernet.errors import FormatError
from plueckernet.evaluation.documents import ResultDocument, read_result, to_json, write_result
from plueckernet.evaluation.outcomes import Outcome, is_right, summarise_outcomes
from plueckernet.evaluation.rates import Rate, percent
from plueckernet.evaluation.result_rows import combined


@dataclass(frozen=True)
class Values:
    rate: Rate
    errors: tuple[tuple[float, float] | None, ...]
    names: dict[str, int]
    note: str | None = None


VALUES = Values(Rate(274, 275), ((0.5, 0.25), None), {"a": 1})


def written(path, values=VALUES):
    document = ResultDocument("some", {"commit": "1234567"}, values)
    write_result(path, document)
    return document


def test_what_is_read_is_what_was_written(tmp_path):
    document = written(tmp_path / "some.json")
    assert read_result(tmp_path / "some.json", "some", Values) == document


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"more": 1}, "unknown or missing: more"),
        ({"rate": {"count": 3, "total": 2}}, r"values\.rate"),
        ({"rate": 0.5}, r"values\.rate"),
        ({"errors": [[1.0]]}, r"values\.errors\[0\]"),
        ({"names": {"a": "b"}}, r"values\.names\.a"),
        ({"note": 3}, r"values\.note"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path, wrong, place):
    path = tmp_path / "some.json"
    write_result(path, ResultDocument("some", {}, {**to_json(VALUES), **wrong}))
    with pytest.raises(FormatError, match=place):
        read_result(path, "some", Values)


def test_another_result_is_refused(tmp_path):
    written(tmp_path / "some.json")
    with pytest.raises(FormatError, match="'other'"):
        read_result(tmp_path / "some.json", "other", Values)
    (tmp_path / "some.json").write_text("{}")
    with pytest.raises(FormatError, match="provenance"):
        read_result(tmp_path / "some.json", "some", Values)


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (Rate(274, 275), "274 of 275 (99.6 %)"),
        (Rate(275, 275), "275 of 275 (100 %)"),
        (Rate(99_999, 100_000), "99,999 of 100,000 (99.9 %)"),
        (Rate(1, 100_000), "1 of 100,000 (0.1 %)"),
        (Rate(0, 7), "0 of 7 (0 %)"),
        (Rate(0, 0), "0 of 0"),
    ],
)
def test_only_all_is_a_hundred_percent(rate, text):
    assert str(rate) == text


def test_fractions_keep_to_the_same_rule():
    assert [percent(value) for value in (None, 0.0, 1e-9, 0.5, 1 - 1e-9, 1.0)] == [
        "–", "0 %", "0.1 %", "50.0 %", "99.9 %", "100 %",
    ]  # fmt: skip
    assert percent(0.996, 0) == "99 %"
    with pytest.raises(ValueError, match="3 of 2"):
        Rate(3, 2)


OUTCOMES = [
    Outcome((1.0, 0.2), accepted=True, common=20, right_matches=4),
    Outcome((1.0, 0.05), accepted=False, common=20, right_matches=2),
    Outcome((9.0, 0.2), accepted=True, common=20),
    Outcome((9.0, 0.2), accepted=True, common=3),
    Outcome(None, accepted=False, common=20),
]


def test_pairs_with_little_in_common_do_not_count_but_their_false_successes_do():
    summary = summarise_outcomes(OUTCOMES, min_common=10)
    assert (summary.registered, summary.pairs) == (5, 4)
    assert summary.right == Rate(2, 4)
    assert summary.right_and_accepted == Rate(1, 4)
    assert summary.false_success_text == "2 of 3 called a success"
    assert summary.strict == Rate(0, 4)
    assert (summary.rotation_median, summary.right_matches_median) == (1.0, 1.0)
    assert not is_right((5.0, 0.1))


def test_groups_add_up_and_what_was_not_recorded_stays_so():
    summary = summarise_outcomes(OUTCOMES)
    total = combined([summary, summary])
    assert (total.right, total.accepted, total.false_successes) == (Rate(4, 10), 6, 4)
    unknown = combined([summary, replace(summary, accepted=None)])
    assert unknown.false_success_text == "4 of 10 pairs"
    assert summarise_outcomes([]).right == Rate(0, 0)


def test_other_methods_are_counted_without_torch():
    """Scripts of competitors run in environments of their own."""
    modules = ("plueckernet.evaluation.crop_results", "plueckernet.evaluation.provenance", "benchmarks.sensor_results")
    script = f"import sys; sys.modules.update(torch=None, numpy=None); import {', '.join(modules)}"
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": f"{root / 'src'}:{root}"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
