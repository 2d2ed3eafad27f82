"""What has to hold for the project as a whole, beyond what the linters check."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from jaxtyping import TypeCheckError

from plueckernet import errors

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "plueckernet"
MODULES = sorted(SOURCE.rglob("*.py"))

MAX_MODULE_LINES = 450
MAX_FUNCTION_LINES = 60

# Neither parts of the package that few need nor dependencies that only extras install.
NOT_LOADED_BY_IMPORT = [
    "plueckernet.batch",
    "plueckernet.cli",
    "plueckernet.evaluation",
    "plueckernet.extraction",
    "plueckernet.report",
    "plueckernet.training",
    "plueckernet.viewer",
    "beartype",
    "ezdxf",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "plyfile",
    "pyarrow",
    "ray",
    "rich",
    "tensorboard",
    "typer",
]


def test_the_source_is_found():
    assert SOURCE / "errors.py" in MODULES


def test_import_is_light():
    script = "import sys, plueckernet; print('\\n'.join(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={"PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    loaded = set(run.stdout.split())
    assert "plueckernet" in loaded
    assert loaded.isdisjoint(NOT_LOADED_BY_IMPORT), loaded.intersection(NOT_LOADED_BY_IMPORT)


def test_no_assert_guards_the_source():
    """`python -O` drops asserts, and users deserve one of our own errors."""
    matches = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(_parse(path))
        if isinstance(node, ast.Assert)
    ]
    assert not matches


def test_modules_stay_readable():
    long = {
        str(path.relative_to(ROOT)): count
        for path in MODULES
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MAX_MODULE_LINES
    }
    assert not long


def test_functions_stay_readable():
    long = {
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}": count
        for path in MODULES
        for function in _functions(path)
        if (count := _length(function)) > MAX_FUNCTION_LINES
    }
    assert not long


def test_version_is_the_newest_in_the_changelog():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE)
    assert newest is not None
    assert _version() == newest.group(1)


def test_constraints_pin_exactly():
    loose = [line for line in _constraints() if not re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*", line)]
    assert not loose
    assert "torch==2.13.0" in _constraints()


def test_constraints_cover_every_direct_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(name for extra in project["project"]["optional-dependencies"].values() for name in extra),
    ]
    names = {re.split(r"[\[<>=!~; ]", requirement)[0].lower() for requirement in wanted}
    pinned = {line.split("==")[0] for line in _constraints()}
    assert names - {"plueckernet"} <= pinned


@pytest.mark.parametrize("wanted", [".".join(map(str, sys.version_info[:2])), "3.99"])
def test_another_python_is_found_only_if_it_starts(tmp_path, wanted):
    """Shims of pyenv are on the PATH for versions that do not start."""
    for version in (wanted, "3.99"):
        (tmp_path / f"python{version}").unlink(missing_ok=True)
        (tmp_path / f"python{version}").symlink_to(sys.executable)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    script = [ROOT / "tests" / "find_python", wanted]
    run = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    expected = (1, "") if wanted == "3.99" else (0, f"{tmp_path}/python{wanted}\n")
    assert (run.returncode, run.stdout) == expected


def test_signatures_are_checked(pytestconfig):
    """Without jaxtyping's import hook every shape in a signature would be decoration."""
    option = "--jaxtyping-packages=plueckernet,beartype.beartype"
    assert option in (ROOT / "Makefile").read_text(encoding="utf-8")
    if not pytestconfig.getoption("jaxtyping_packages"):
        pytest.skip(f"run by `make test`, or with {option}")
    with pytest.raises(TypeCheckError):
        errors.ShapeError("points", expected=3, actual=(3,))


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, less those of the docstring: explaining is free."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def _version() -> str:
    matches = re.search(r'^__version__ = "(.+)"$', (SOURCE / "version.py").read_text(), re.MULTILINE)
    assert matches is not None
    return matches.group(1)


def _constraints() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
