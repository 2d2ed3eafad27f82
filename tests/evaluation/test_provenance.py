"""A number is traced to the code it depends on: nothing else changes its hash, and everything in it does."""

import ast
import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluation.small import weights_folder

from plueckernet.errors import FormatError, InputError
from plueckernet.evaluation.provenance import (
    COMMIT_VARIABLE,
    commit_of,
    environment,
    is_current,
    mark,
    provenance,
    weights_hash,
)
from plueckernet.evaluation.sources import SourceTree, project_tree, source_hash, sources_of

SRC = project_tree().packages["plueckernet"]
FILES = {
    "__init__.py": '''
"""Lazy."""
import importlib
_HOMES = {"register": "core", "Pose": "shapes", "extract": "extraction"}
def __getattr__(name):
    return getattr(importlib.import_module(f"toy.{_HOMES[name]}"), name)
''',
    "core.py": '''
"""The core."""
from __future__ import annotations
from typing import TYPE_CHECKING
from toy.shapes import Pose
if TYPE_CHECKING:
    from toy.extraction import extract
def register(a: int) -> Pose:
    """Say nothing."""
    from toy.late import polish
    return polish(Pose(f"{a}{a:.3f}b", "", None))
''',
    "shapes/__init__.py": "from toy.shapes.pose import Pose\nfrom toy.shapes.circle import Circle\nCOUNT = 2\n",
    "shapes/pose.py": "class Pose:\n    x: int = 1\n",
    "shapes/circle.py": "class Circle:\n    pass\n",
    "late.py": "def polish(pose):\n    return pose\n",
    "extraction.py": "def extract():\n    return 1\n",
    "lazy.py": "from toy import register\n",
    "whole.py": "import toy\n",
    "attribute.py": "import toy as t\ndef run():\n    return t.register(1)\n",
    "nested.py": "import toy.shapes\nCIRCLE = toy.shapes.Circle\n",
    "counted.py": "from toy.shapes import COUNT\n",
    "command.py": 'import sys\nCOMMAND = [sys.executable, "-m", "toy.late", "--fast"]\n',
    "named.py": 'from importlib import import_module\nLATE = import_module("toy.late")\n',
    "several.py": """
from toy.late import polish
from toy.extraction import extract
from toy.shapes import Circle
LIMIT = 3
def fast(shape: Circle):
    return polish(_half(shape))
def slow(shape):
    return extract() + LIMIT
def _half(shape):
    return shape / 2
""",
    "twice.py": """
def first():
    from toy.late import polish as run
    return run(1)
def second():
    from toy.extraction import extract as run
    return run()
""",
    "uses.py": "from toy.several import slow\ndef run():\n    return slow(1)\n",
}


@pytest.fixture
def toy(tmp_path) -> SourceTree:
    for name, text in FILES.items():
        path = tmp_path / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return SourceTree({"toy": tmp_path / "toy"})


def names(tree: SourceTree, *roots: str) -> set[str]:
    """Of the files that modules depend on."""
    return {path.relative_to(tree.packages["toy"]).as_posix() for path in sources_of(*roots, tree=tree)}


CORE = {"core.py", "late.py", "shapes/pose.py"}


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("toy.core", CORE),
        ("toy.lazy", {"lazy.py", *CORE}),
        ("toy.whole", {"whole.py"}),
        ("toy.attribute", {"attribute.py", *CORE}),
        ("toy.nested", {"nested.py", "shapes/circle.py"}),
        ("toy.counted", {"counted.py", "shapes/__init__.py", "shapes/pose.py", "shapes/circle.py"}),
        ("toy.command", {"command.py", "late.py"}),
        ("toy.named", {"named.py", "late.py"}),
        ("toy.twice", {"twice.py", "late.py", "extraction.py"}),
        ("toy.several", {"several.py", "late.py", "extraction.py", "shapes/circle.py"}),
        ("toy.several:fast", {"several.py", "late.py"}),
        ("toy.several:slow", {"several.py", "extraction.py"}),
    ],
)
def test_the_sources_of_a_module(toy, module, expected):
    """Lazy names, re-exports, imports in functions, attributes and commands count; type checking does not."""
    assert names(toy, module) == expected


def edit(tree: SourceTree, name: str, old: str, new: str) -> None:
    path = tree.packages["toy"] / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("core.py", '"""The core."""', '"""The heart."""\n# why'),
        ("core.py", '    """Say nothing."""\n', ""),
        ("core.py", "register(a: int)", "register(\n    a: int,\n)"),
        ("core.py", "    from toy.extraction import extract", "    from toy.extraction import extract as e"),
        ("shapes/__init__.py", "COUNT = 2", "COUNT = 3"),
        ("shapes/circle.py", "pass", "y = 1"),
        ("extraction.py", "return 1", "return 2"),
    ],
)
def test_prose_and_other_modules_keep_the_hash(toy, name, old, new):
    before = source_hash("toy.core", tree=toy)
    edit(toy, name, old, new)
    assert source_hash("toy.core", tree=toy) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("core.py", "{a:.3f}", "{a:.4f}"),
        ("core.py", '"", None', "None"),
        ("core.py", "None))", "0))"),
        ("late.py", "return pose", "return -pose"),
        ("shapes/pose.py", "x: int = 1", "x: int = True"),
        ("shapes/pose.py", "x: int = 1", "x: int = 1.0"),
        ("shapes/__init__.py", "from toy.shapes.pose import Pose", "from toy.shapes.pose import Other as Pose"),
    ],
)
def test_code_anywhere_below_changes_the_hash(toy, name, old, new):
    before = source_hash("toy.core", tree=toy)
    edit(toy, name, old, new)
    assert source_hash("toy.core", tree=toy) != before


def test_of_a_narrowed_module_only_what_is_used_counts(toy):
    """Also when another module comes back to it."""
    roots = ("toy.several:fast", "toy.uses:run")
    before, fast = source_hash(*roots, tree=toy), source_hash("toy.several:fast", tree=toy)
    edit(toy, "several.py", "LIMIT = 3", "LIMIT = 4")
    assert source_hash("toy.several:fast", tree=toy) == fast
    assert source_hash(*roots, tree=toy) != before
    edit(toy, "several.py", "shape / 2", "shape / 3")
    assert source_hash("toy.several:fast", tree=toy) != fast
    assert names(toy, "toy.several:absent") == names(toy, "toy.several")


def test_other_files_count_by_their_bytes_and_place(toy, tmp_path):
    path = toy.packages["toy"] / "config.toml"
    path.write_text("a = 1\n")
    before = source_hash("toy.late", extra_files=[path], tree=toy)
    assert before != source_hash("toy.late", tree=toy)
    assert toy.relative(path) == "toy/config.toml"
    path.write_text("a = 2\n")
    assert source_hash("toy.late", extra_files=[path], tree=toy) != before
    with pytest.raises(InputError, match=r"absent\.toml"):
        source_hash("toy.late", extra_files=[tmp_path / "absent.toml"], tree=toy)


def test_compiled_code_counts_with_its_module_but_not_its_comments(toy):
    folder = toy.packages["toy"]
    before = source_hash("toy.core", tree=toy)
    (folder / "late.c").write_text("/* halves */\nfloat half(float x) { return x / 2; }\n")
    (folder / "shapes" / "unrelated.c").write_text("int unrelated;\n")
    (folder / "toy.h").write_text("#define TOY 1\n")
    with_c = source_hash("toy.core", tree=toy)
    assert with_c != before
    edit(toy, "late.c", "/* halves */", "/* a comment\n of two lines */")
    edit(toy, "late.c", "{ return", "{\n    return")
    edit(toy, "shapes/unrelated.c", "unrelated", "other")
    assert source_hash("toy.core", tree=toy) == with_c
    edit(toy, "toy.h", "TOY 1", "TOY 2")
    assert source_hash("toy.core", tree=toy) != with_c
    edit(toy, "toy.h", "TOY 2", "TOY 1")
    edit(toy, "late.c", "x / 2", "x / 3")
    assert source_hash("toy.core", tree=toy) != with_c


def test_what_cannot_be_followed_is_named(toy):
    with pytest.raises(InputError, match=r"toy\.absent"):
        source_hash("toy.absent", tree=toy)
    edit(toy, "late.py", "return pose", "return (")
    with pytest.raises(FormatError, match=r"late\.py:2"):
        source_hash("toy.core", tree=toy)
    edit(toy, "core.py", "from toy.shapes import Pose", "from .shapes import Pose")
    with pytest.raises(InputError, match="relative import"):
        source_hash("toy.core", tree=toy)


# This project


def test_registration_does_not_depend_on_extraction_reports_or_training():
    folders = {path.relative_to(SRC).parts[0] for path in sources_of("plueckernet.registration")}
    assert {"registration.py", "estimation", "geometry", "models"} <= folders
    assert not folders & {"extraction", "report", "training", "cli", "evaluation", "data", "version.py", "__init__.py"}


def test_packages_have_no_side_effects():
    """Their ``__init__`` is left out where names are only passed on; the command line is used as a whole."""
    for path in SRC.rglob("__init__.py"):
        if path.parent.name != "cli":
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                prose = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                assigned = isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.FunctionDef)
                checked = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
                assert prose or assigned or checked, f"{path}:{node.lineno}"


def other_pythons() -> dict[str, str]:
    """By version; they need not have the dependencies."""
    paths = [shutil.which(f"python3.{minor}") for minor in (11, 12, 13, 14)]
    paths += [str(path) for path in Path.home().glob(".pyenv/versions/3.1[1-4].*/bin/python")]
    pythons = {version_of(path): path for path in paths if path}
    return {version: path for version, path in pythons.items() if version not in ("", version_of(sys.executable))}


def version_of(python: str) -> str:
    """Such as 3.12; nothing for one that does not start."""
    command = [python, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def test_every_python_finds_the_same():
    pythons = other_pythons()
    if not pythons:
        pytest.skip("no other Python from 3.11 on")
    roots = ["plueckernet.cli", "plueckernet.evaluation.methods:all_methods"]
    code = f"from plueckernet.evaluation.sources import source_hash; print(*map(source_hash, {roots}))"
    expected = [source_hash(root) for root in roots]
    for version, python in pythons.items():
        command = [python, "-c", code]
        run = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(SRC.parent)}, check=False)
        assert run.stdout.split() == expected, (version, run.stderr)


def test_hashing_is_quick_the_second_time():
    source_hash("plueckernet.evaluation.predictions")
    start = time.process_time()
    source_hash("plueckernet.evaluation.predictions")
    assert time.process_time() - start < 0.3


# Commits


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    run = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True)
    return run.stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    if shutil.which("git") is None:
        pytest.skip("no git")
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    for variable in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(variable, raising=False)
    for name in ("code.py", "README.md", "benchmarks/results/a.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("code.py", False),
        ("new.py", False),
        ("benchmarks/new.py", False),
        ("benchmarks/results/a.json", True),
        ("benchmarks/results/b.json", True),
        ("docs/new.md", True),
        ("README.md", True),
    ],
)
def test_a_tree_is_clean_up_to_what_runs_write(repository, name, clean):
    commit = git(repository, "rev-parse", "HEAD")
    assert commit_of(repository) == (commit, True)
    (repository / name).parent.mkdir(exist_ok=True)
    (repository / name).write_text("2\n")
    assert commit_of(repository) == (commit, clean)


def test_without_git_the_environment_tells(tmp_path, monkeypatch):
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    assert commit_of(tmp_path) == commit_of(None) == (None, None)
    monkeypatch.setenv(COMMIT_VARIABLE, "866f0b2")
    assert commit_of(tmp_path) == ("866f0b2", True)
    monkeypatch.setenv(COMMIT_VARIABLE, "866f0b2-dirty")
    assert commit_of(None) == ("866f0b2", False)
    monkeypatch.setenv(COMMIT_VARIABLE, "yesterday")
    with pytest.raises(InputError, match="PLUECKERNET_COMMIT='yesterday'"):
        commit_of(None)


def test_git_that_is_not_installed_is_no_error(repository, monkeypatch):
    monkeypatch.setenv("PATH", str(repository))
    assert commit_of(repository) == (None, None)
    monkeypatch.setenv(COMMIT_VARIABLE, "0123456789abcdef")
    assert commit_of(repository) == ("0123456789abcdef", True)


def test_the_environment_comes_before_git(repository, monkeypatch):
    monkeypatch.setenv(COMMIT_VARIABLE, "0123456789abcdef-dirty")
    assert commit_of(repository) == ("0123456789abcdef", False)


# Documents


def test_a_document_is_current_until_something_changes(tmp_path):
    file = SRC / "training" / "configs" / "tiny.toml"
    now = provenance("plueckernet.registration", ["invariant"], [file])
    document = json.loads(json.dumps({"provenance": now.to_dict(), "table": []}))
    assert is_current(document)
    assert mark(document) == ""
    assert list(now.weights) == ["invariant"]
    assert list(now.files) == ["plueckernet/training/configs/tiny.toml"]
    changed = [
        replace(now, sources="0" * 16),
        replace(now, weights={"invariant": "0" * 16}),
        replace(now, weights={"gone": "0" * 16}),
        replace(now, files={"plueckernet/training/configs/gone.toml": "0" * 16}),
        replace(now, files={"elsewhere/a.toml": "0" * 16}),
        replace(now, module="plueckernet.gone"),
    ]
    assert not any(is_current({"provenance": other.to_dict()}) for other in changed)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"commit": "866f0b23cdd44d66a29b272879a9e7a2ed0f301c"}, "at 866f0b2"),
        ({"commit": "866f0b23cdd44d66a29b272879a9e7a2ed0f301c", "clean": None, "sources": None}, "at 866f0b2"),
        ({"commit": "866f0b23cdd44d66a29b272879a9e7a2ed0f301c", "clean": False}, "at 866f0b2, modified"),
        ({"commit": None}, "of unknown sources"),
        (None, "of unknown sources"),
    ],
)
def test_other_documents_are_marked(recorded, expected):
    assert mark({"provenance": recorded} if recorded else {"metadata": {}}) == expected


def test_all_results_say_where_they_come_from():
    folder = SRC.parents[1] / "benchmarks" / "results"
    if not folder.is_dir():
        pytest.skip("no checkout")
    for path in folder.rglob("*.json"):
        assert mark(json.loads(path.read_text(encoding="utf-8"))) != "of unknown sources", path


def test_prose_of_a_card_does_not_count(tmp_path):
    path = weights_folder(tmp_path) / "invariant.safetensors"
    card_path, before = path.with_suffix(".json"), weights_hash(path)
    card = json.loads(card_path.read_text())
    card_path.write_text(json.dumps({**card, "data": "other words", "numbers": {"right": 3}}))
    assert weights_hash(path) == before
    card_path.write_text(json.dumps({**card, "calibration": [1.0]}))
    assert weights_hash(path) != before
    card_path.write_text("{")
    with pytest.raises(FormatError, match=r"invariant\.json"):
        weights_hash(path)
    recorded = provenance("plueckernet.errors", [tmp_path / "regression-indoor.safetensors"]).weights
    assert list(recorded) == ["regression-indoor.safetensors"]  # no folder of this machine


def test_versions_are_recorded():
    versions = environment("NVIDIA H200", ["pytest", "no-such-package"])
    assert versions["pytest"] == pytest.__version__
    assert versions["no-such-package"] is None
    assert versions["threads"] >= 1
    assert versions["device"] == "NVIDIA H200"
