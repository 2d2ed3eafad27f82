"""Every experiment end to end on small data, and what they conclude from numbers."""

import json
import math
import re
from dataclasses import replace

import pytest
from benchmarks.pages import EXPERIMENT_RESULTS, ROOT
from tests.evaluation.small import pairs_folder, scenes_folder, weights_folder

from plueckernet.cli import main
from plueckernet.errors import FormatError, InputError
from plueckernet.evaluation.crop_results import CropOutcome, crop_values
from plueckernet.evaluation.documents import ResultDocument, write_result
from plueckernet.evaluation.experiments import EXPERIMENTS
from plueckernet.evaluation.experiments.ablations import (
    AblationSettings,
    AblationValues,
    TrainingResult,
    TrainingRun,
    _outcome,
    read_ablations,
)
from plueckernet.evaluation.outcomes import Outcome
from plueckernet.evaluation.paired import same_pairs
from plueckernet.evaluation.paper import TABLE_1
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.reproduce import read_document, write_figures
from plueckernet.evaluation.result_rows import compared_crops
from plueckernet.evaluation.results_page import IMAGES, crop_section, results_page
from plueckernet.evaluation.runner import Runner, RunSettings
from plueckernet.evaluation.verdict import against_table_1, in_short, relative_to_icl

DOCS = ROOT / "docs"
NAMES = ("indoor", "outdoor")


def ablations(recalls: dict[str, tuple[float, ...]], spread: float = 0.1) -> ResultDocument[AblationValues]:
    """What the trainings would have written: for each design, recalls of its seeds, on two pairs of either kind."""

    def result(recall: float) -> TrainingResult:
        pairs = (recall - spread, recall + spread)
        return TrainingResult(recall / 2, recall, Rate(2, 2), None, 0.5, 0.02, pairs)

    trainings = tuple(
        TrainingRun(name, seed, dict.fromkeys(NAMES, result(recall)))
        for name, values in recalls.items()
        for seed, recall in enumerate(values)
    )
    return ResultDocument("ablations", {}, AblationValues(AblationSettings(steps=1, batch=1, pairs=1), trainings))


def changed(values, **roles):
    """The same values with fields of the summaries of some roles replaced, by dataset."""
    cells = {
        name: {
            role: replace(cell, **roles[role](name)) if role in roles else cell
            for role, cell in values.cells[name].items()
        }
        for name in values.cells
    }
    return replace(values, cells=cells)


def swept(values, rates, poses="success"):
    """The same values with the right poses of some roles replaced, not pair by pair: ``rates[role](place)``."""
    cells = {
        name: {
            role: tuple(
                replace(cell, by_pair=None, **{poses: Rate(round(100 * rates[role](i)), 100)})
                if role in rates
                else cell
                for i, cell in enumerate(steps)
            )
            for role, steps in methods.items()
        }
        for name, methods in values.cells.items()
    }
    return replace(values, cells=cells)


RECALLS = {
    "as published": (0.80, 0.82),
    "no matchability prior": (0.79, 0.79),
    "no subspace coding": (0.61, 0.59),
    "BatchNorm + ReLU": (0.9, 0.92),
}


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """The folder of `reproduce all` with one pair per cell."""
    root = tmp_path_factory.mktemp("reproduce")
    kinds = {"indoor": "indoor", "outdoor": "outdoor", "street": "outdoor"}
    folders = [f"{name}={scenes_folder(root / name, kind, 3)}" for name, kind in kinds.items()]
    write_result(root / "ablations.json", ablations(RECALLS))
    data = [f"--data={entry}" for entry in (*folders, f"ablations={root / 'ablations.json'}")]
    out = root / "out"
    with pytest.raises(SystemExit) as done:
        main(["reproduce", "all", f"--out={out}", "--limit=1", f"--weights={weights_folder(root / 'weights')}", *data])
    assert done.value.code == 0
    return out


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)
def test_it_writes_numbers_tables_and_figures(reproduced, experiment):
    document = read_document(experiment, reproduced)
    json.dumps(document.to_dict(), allow_nan=False)
    tables = experiment.tables(document.values)
    markdown = (reproduced / f"{experiment.name}.md").read_text()
    assert markdown.count("**") == 2 * len(tables)
    for table in tables:
        assert all(len(row) == len(table.heads) for row in table.rows)
    latex = (reproduced / f"{experiment.name}.tex").read_text()
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == len(tables)
    assert not re.search(r"(?<!\\)[%&_#](?![^\n]*\\\\)", latex.replace(" & ", " "))
    assert not re.search(r"[°×±–≤]|(?<!\$)<", latex)  # what LaTeX's oldest fonts lack or print as something else
    figures = sorted(reproduced.glob(f"{experiment.name}-*.png"))
    assert figures or experiment.name in ("scenes", "recipes", "error-sources")
    assert all(path.stat().st_size > 5_000 and path.with_suffix(".svg").exists() for path in figures)
    assert experiment.findings(document.values)


def test_figures_are_the_same_when_made_again(reproduced, tmp_path):
    experiment = EXPERIMENTS["overlap"]
    for stem in write_figures(experiment, read_document(experiment, reproduced).values, tmp_path):
        assert (tmp_path / f"{stem}.svg").read_bytes() == (reproduced / f"{stem}.svg").read_bytes()


def test_the_papers_numbers_stand_beside_ours(reproduced):
    table = (reproduced / "table1.md").read_text()
    assert "| PlückerNet, in the paper | 0.342 | 0.468 | 0.621 | 0.013 | 0.019 | 0.026 |" in table
    assert "0.327" in (reproduced / "timing.md").read_text()


def test_experiments_share_predictions(reproduced):
    lines = list((reproduced / "predictions").rglob("predictions.jsonl"))
    assert all(len(path.read_text().splitlines()) == 1 for path in lines)
    main_icl = reproduced / "predictions" / "indoor" / "paper" / "icl"
    assert (main_icl / "config.json").exists()


def test_sources_of_error_start_from_table_1_and_leave_wrong_matches_out(reproduced):
    cells = reproduced / "predictions" / "indoor" / "paper"
    right = json.loads((cells / "pluecker-indoor-right" / "predictions.jsonl").read_text())
    assert right["putative"] == right["putative_right"]
    table1, sources = (read_document(EXPERIMENTS[name], reproduced).values for name in ("table1", "error-sources"))
    assert sources.cells["indoor"]["as published"] == table1.cells["indoor"]["pluecker"]
    good = changed(sources, **{"as published": lambda name: TABLE_1[name]["PlückerNet"]})
    assert good.below_published("as published") == 12
    bad = changed(good, **{"as published": lambda name: {"translation": (None, 1.0, 1.0)}})
    assert bad.below_published("as published") == 6
    assert "as published: 6;" in EXPERIMENTS["error-sources"].findings(bad)[0]


def test_curves_rise_to_the_success_rate(reproduced):
    values = read_document(EXPERIMENTS["recall"], reproduced).values
    for cells in values.cells.values():
        for cell in cells.values():
            for quantity in ("rotation", "translation"):
                curve = cell.recall[quantity]
                assert list(curve) == sorted(curve)
                assert curve[-1] >= cell.summary.success.fraction


def test_recorded_frames_take_the_place_of_the_stand_in(tmp_path):
    folder, pair = pairs_folder(tmp_path / "drive")
    settings = RunSettings(tmp_path / "out", weights=weights_folder(tmp_path / "weights"), data={"street": folder})
    values = EXPERIMENTS["odometry"].run(Runner(settings))
    assert values.setting.pairs == {"street": 1}
    assert values.setting.protocols == {"street": ({"protocol": "Recorded"},)}
    summary = values.cells["street"]["ours"].summary
    assert summary.common_lines == len(pair.matches)
    assert summary.success == Rate(1, 1)
    assert summary.false_successes == Rate(0, 1)


# Conclusions


@pytest.mark.parametrize(
    ("design", "lost", "margin", "outcome"),
    [
        ("no cross-attention", 0.03, 0.01, "held"),
        ("no cross-attention", 0.004, 0.003, "held"),  # small and certain
        ("no cross-attention", 0.005, 0.007, "not decided"),
        ("no cross-attention", 0.002, 0.007, "refuted"),  # no loss that counts
        ("no cross-attention", -0.03, 0.02, "refuted"),
        ("no cross-attention", -0.01, 0.03, "not decided"),
        ("fast attention", 0.02, 0.01, "held"),
        ("fast attention", 0.0, 0.009, "refuted"),
        ("fast attention", 0.0, 0.012, "not decided"),
        ("Gram–Schmidt", 0.0, 0.009, "held"),
        ("Gram–Schmidt", 0.03, 0.02, "held"),  # harm is no benefit
        ("Gram–Schmidt", -0.03, 0.01, "refuted"),
        ("Gram–Schmidt", -0.005, 0.007, "not decided"),
    ],
)
def test_a_claim_about_a_component_can_be_held_refuted_or_open(design, lost, margin, outcome):
    assert _outcome(design, lost, margin) == outcome


def test_ablations_say_which_claims_held():
    seeds, rule, prior, coding, norm, cross, *tried = EXPERIMENTS["ablations"].findings(ablations(RECALLS).values)
    # The variances of the four designs' seeds are 2e-4, 0, 2e-4 and 2e-4; all pairs lose the same.
    assert "80.0 % and 82.0 %" in seeds
    assert "differ by 1.2 points (one sigma, 4 degrees of freedom)" in seeds
    assert "smallest effect that counts is 1 point of recall" in rule
    margin = 100 * 2.776 * math.sqrt(1.5e-4)
    assert f"2.0 ± {margin:.1f} points fewer (95 % confidence); not decided." in prior
    assert f"21.0 ± {margin:.1f} points fewer (95 % confidence); held." in coding
    assert norm.endswith("; refuted.")
    assert cross.endswith("was not trained; not measured.")
    assert len(tried) == 2


def test_pairs_that_disagree_make_ablations_uncertain():
    other = ablations({"no subspace coding": RECALLS["no subspace coding"]}, spread=0.4).values.trainings
    values = ablations({name: recalls for name, recalls in RECALLS.items() if name != "no subspace coding"}).values
    mixed = replace(values, trainings=(*values.trainings, *other))
    assert EXPERIMENTS["ablations"].findings(mixed)[3].endswith("not decided.")


def test_ablations_need_two_seeds_to_compare_with(tmp_path):
    path = tmp_path / "ablations.json"
    write_result(path, ablations({"as published": (0.8,)}))
    with pytest.raises(FormatError, match="two trainings"):
        read_ablations(path)


def test_ablations_have_to_be_trained_first(tmp_path):
    with pytest.raises(InputError, match="plueckernet evaluate ablations"):
        EXPERIMENTS["ablations"].run(Runner(RunSettings(tmp_path)))


def test_a_method_that_finds_nothing_is_said_to(reproduced):
    nothing = {"rotation": (None,) * 3, "translation": (None,) * 3, "success": Rate(0, 1)}
    values = changed(read_document(EXPERIMENTS["table1"], reproduced).values, ours=lambda _name: nothing)
    assert sum("the pairs have no pose" in sentence for sentence in EXPERIMENTS["table1"].findings(values)) == 4
    ours = next(row for row in EXPERIMENTS["table1"].tables(values)[0].rows if row[0] == "ours")
    assert ours[1:8] == ["–"] * 6 + ["0 of 1 (0 %)"]


def test_overlap_reports_down_to_where_nine_of_ten_are_right(reproduced):
    values = read_document(EXPERIMENTS["overlap"], reproduced).values
    good = [value >= 0.3 or math.isclose(value, 0.1) for value in values.values]
    values = swept(values, {"ours": lambda i: 0.95 if good[i] else 0.5})
    assert all("ours down to 0.3." in sentence for sentence in EXPERIMENTS["overlap"].findings(values))


def test_the_command_names_what_it_does_not_know(tmp_path, capsys):
    for arguments in (["table2"], ["table1", "--data", "indoor"], ["table1", "--data", f"attic={tmp_path}"]):
        with pytest.raises(SystemExit) as done:
            main(["reproduce", *arguments, f"--out={tmp_path / 'out'}"])
        assert done.value.code == 2
    said = capsys.readouterr().err
    assert "table2" in said
    assert "NAME=PATH" in said
    assert "attic" in said


def test_evaluate_prints_what_it_measured(tmp_path, capsys):
    folder = scenes_folder(tmp_path / "houses", "indoor", 3)
    options = [f"--out={tmp_path / 'out'}", f"--data=indoor={folder}", "--pairs=2", "--protocol=any", "--keep=1"]
    with pytest.raises(SystemExit) as done:
        main(["evaluate", "methods", "icl-undirected", "ours-without-weights", *options])
    assert done.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said["results"]["ours-without-weights"]["pairs"] == 2
    assert said["results"]["ours-without-weights"]["success"] == {"count": 2, "total": 2}


def test_the_page_shows_every_experiment_and_its_figures(reproduced):
    text = results_page(reproduced)
    assert all(f"## {experiment.title}\n" in text for experiment in EXPERIMENTS.values())
    shown = re.findall(r"\(images/results/([\w-]+)\.png\)", text)
    assert sorted(shown) == sorted(path.stem for path in reproduced.glob("*.png"))
    assert "Not measured yet" not in text


def test_the_page_marks_what_was_measured_elsewhere(reproduced, tmp_path):
    document = read_document(EXPERIMENTS["table1"], reproduced)
    here = {**document.provenance, "weights": {}}  # those of this test come and go
    write_result(tmp_path / "table1.json", replace(document, provenance=here))
    assert "*Measured" not in results_page(tmp_path)
    other = {**here, "sources": "of another commit", "commit": "0123456789", "clean": True}
    write_result(tmp_path / "table1.json", replace(document, provenance=other))
    assert "## Table 1: errors of all methods\n\n*Measured at 0123456.*" in results_page(tmp_path)


def test_the_page_counts_what_is_below_the_published(reproduced):
    def better(name):
        factor = 0.9 if name == "indoor" else 1.1
        published = TABLE_1[name]["PlückerNet"]
        return {quantity: tuple(factor * value for value in published[quantity]) for quantity in published}

    values = changed(
        read_document(EXPERIMENTS["table1"], reproduced).values,
        ours=better,
        pluecker=lambda _name: {"rotation": (None,) * 3, "translation": (None,) * 3},
    )
    text = against_table_1(values)
    assert "our default is below 6 of the 12; PlückerNet trained here is below 0 of the 12" in text
    assert "| 0.468° | **0.421°** | no pose |" in text


def test_the_page_says_where_we_are_better_and_where_not(reproduced):
    levels = {"icl": (0.0, 0.93, 0.9), "pluecker": (0.5, 0.93, 0.2), "ours": (0.9, 0.93, 0.2)}
    rates = {role: lambda i, rates=rates: rates[0 if i < 5 else i - 4] for role, rates in levels.items()}
    values = swept(read_document(EXPERIMENTS["noise"], reproduced).values, rates)
    given = same_pairs({"noise": values}).split("**Only the poses given")[1]
    row = next(line for line in given.splitlines() if line.startswith("| noise, outdoor"))
    better, level, worse = row.strip("| ").split(" | ")[1:]
    assert better.split("; ") == list(values.names[:5])
    assert level == values.names[5]
    assert worse == values.names[6]
    assert "Ours is worse in 2 of these 14 settings:" in given
    assert f"- noise, outdoor, {worse}: 20 of 100 right, ICL 90" in given
    assert "of 14 settings it is better at 10, level at 2, worse at 2" in in_short({"noise": values})


def test_the_page_counts_right_poses_that_are_not_given_apart(reproduced):
    values = read_document(EXPERIMENTS["noise"], reproduced).values
    values = swept(values, {"icl": lambda _: 0.2, "pluecker": lambda _: 0.5, "ours": lambda _: 0.1})
    values = swept(values, {"icl": lambda _: 0.2, "pluecker": lambda _: 0.5, "ours": lambda _: 0.9}, "best")
    best, given = same_pairs({"noise": values}).split("**Only the poses given")
    everywhere = "; ".join(values.names)
    assert f"| noise, indoor | – | – | {everywhere} |" in given
    assert f"| noise, indoor | {everywhere} | – | – |" in best
    assert "Ours is worse in none of these 14 settings." in best
    cells = {
        name: {role: tuple(replace(cell, best=None) for cell in steps) for role, steps in roles.items()}
        for name, roles in values.cells.items()
    }
    assert "**Best pose" not in same_pairs({"noise": replace(values, cells=cells)})
    short = in_short({"noise": values})
    assert "On the same pairs, only the poses given, ours" in short
    assert "it is better at 0, level at 0, worse at 14" in short
    assert short.index("it is better at 14, level at 0, worse at 0") < short.index("only the poses given")


def test_errors_are_compared_relative_to_icl(reproduced):
    def ours(name):
        factors = {"rotation": 0.99, "translation": 1.01 if name == "outdoor" else 0.99}
        ratios = {q: TABLE_1[name]["PlückerNet"][q][1] / TABLE_1[name]["ICL"][q][1] for q in factors}
        return {q: (None, 10 * ratios[q] * factor, None) for q, factor in factors.items()}

    values = changed(
        read_document(EXPERIMENTS["table1"], reproduced).values,
        ours=ours,
        icl=lambda _name: dict.fromkeys(("rotation", "translation"), (None, 10.0, None)),
    )
    assert [name for name, better in relative_to_icl(values).items() if not better] == ["outdoor translation"]
    assert "in 3 of 4 cases, but not for outdoor translation." in in_short({"table1": values})


def test_every_committed_figure_is_shown_and_every_shown_one_committed():
    shown = re.findall(r"\(images/results/([\w-]+)\.png\)", (DOCS / "results.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.stem for path in (DOCS / IMAGES).glob("*.png"))
    assert shown or not list(EXPERIMENT_RESULTS.glob("*.json"))


def test_crops_of_two_methods_stand_side_by_side(tmp_path):
    values = {}
    for method, error in (("invariant", (1.0, 0.1)), ("open3d", (90.0, 1.0))):
        crops = [CropOutcome(place, row, Outcome(error, accepted=True, common=12)) for place in "ab" for row in (0, 3)]
        values[method] = crop_values(method, "same", crops)
        write_result(tmp_path / f"crops_{method}.json", ResultDocument(f"crops_{method}", {}, values[method]))
    lines = crop_section(tmp_path).splitlines()
    assert "| b | 1 of 1 / 0 of 1 | – / – | – / – | 1 of 1 / 0 of 1 |" in lines
    assert "| **all** | 2 of 2 / 0 of 2 | – / – | – / – | 2 of 2 / 0 of 2 |" in lines
    with pytest.raises(InputError, match="different pairs"):
        compared_crops({"one": values["invariant"], "two": replace(values["open3d"], fingerprint="other")})
