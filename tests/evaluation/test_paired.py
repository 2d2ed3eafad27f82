"""Ours against the others pair by pair: McNemar's test, and what each way of counting counts."""

from dataclasses import replace

import pytest
from scipy.stats import binomtest
from tests.evaluation.test_claims import cell as summary

from plueckernet.evaluation.experiments.plan import CellsValues, Setting
from plueckernet.evaluation.paired import POSES, duels, mcnemar, same_pairs
from plueckernet.evaluation.rates import Rate

SETTING = Setting({"indoor": 100}, {"indoor": "indoor"}, {"indoor": ()})


def cell(letters):
    given, best = letters.count("g"), letters.count("g") + letters.count("b")
    total = len(letters)
    return replace(summary(), pairs=total, success=Rate(given, total), best=Rate(best, total), by_pair=letters)


def compared(**letters):
    """The only setting of a document in which the methods are right as the letters say, by way of counting."""
    cells = {role.replace("_", "-"): cell(text) for role, text in letters.items()}
    document = {"table1": CellsValues(SETTING, {"indoor": cells})}
    return document, {poses: next(duels(document, poses)) for poses in POSES}


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (5, 0), (0, 6), (3, 12), (40, 60), (39, 61)])
def test_mcnemar_is_an_exact_binomial_test(first, second):
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(expected)
    assert mcnemar(first, second) == mcnemar(second, first)


def test_the_verdict_depends_on_the_pairs_that_only_one_gets_right():
    # 90 against 96 of 100 are level as rates of different pairs; here all six differ in one direction.
    _, made = compared(ours="g" * 90 + "-" * 10, pluecker="g" * 96 + "-" * 4, icl="-" * 100)
    assert made["best"].only() == (0, 6)
    assert made["best"].verdict == "worse"
    _, made = compared(ours="g" * 90 + "-" * 10, pluecker="g" * 85 + "-" * 4 + "g" * 11, icl="-" * 100)
    assert made["best"].only() == (4, 10)
    assert made["best"].verdict == "level"


def test_a_right_pose_that_is_not_given_counts_among_the_best_only():
    document, made = compared(ours="g" * 80 + "b" * 20, pluecker="g" * 90 + "-" * 10, icl="-" * 100)
    assert made["best"].verdict == "better"
    assert made["success"].verdict == "worse"
    page = same_pairs(document)
    assert page.index("**Best pose against best pose**") < page.index("**Only the poses given**")
    assert "Ours is worse in none of these 1 settings." in page
    assert "- Table 1, indoor, all: 80 of 100 right, PlückerNet 90" in page


def test_the_better_of_the_others_is_the_rival():
    _, made = compared(ours="g" * 50 + "-" * 50, pluecker="g" * 10 + "-" * 90, icl="g" * 50 + "-" * 50)
    assert made["best"].other.role == "icl"
    assert made["best"].verdict == "level"


def test_ransac_is_compared_with_that_of_the_paper():
    _, made = compared(ransac_published="-" * 10, ransac_ours="g" * 10)
    assert made["best"].verdict == "better"


def test_every_way_of_being_worse_is_seen():
    """The rule can fail: at six pairs of a hundred, in either way of counting."""
    for worse in ("-" * 6, "b" * 6):
        document, made = compared(ours="g" * 94 + worse, pluecker="g" * 100, icl="-" * 100)
        assert made["success"].verdict == "worse"
        assert made["best"].verdict == ("worse" if worse[0] == "-" else "level")
        assert "worse in 1 of these 1 settings" in same_pairs(document)
