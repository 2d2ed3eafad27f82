"""What comes only with an extra is not needed without it, and its absence is an error of ours."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import plueckernet

ROOT = Path(__file__).resolve().parents[1]

SCRIPT = """
import sys
for name in ("scipy", "trimesh", "plyfile", "cv2", "ezdxf", "laspy", "pye57", "matplotlib", "shapely", "ifcopenshell"):
    sys.modules[name] = None
import plueckernet
from plueckernet.cli import make_app
from plueckernet.errors import MissingDependencyError
import plueckernet.moving, plueckernet.interop, plueckernet.extraction, plueckernet.odometry, plueckernet.sensing
lines = plueckernet.read_lines(sys.argv[1])
result = plueckernet.register(lines[::12], lines[::12], matcher="descriptors")
try:
    plueckernet.extract_lines
except MissingDependencyError as error:
    print(error)
try:
    import plueckernet.evaluation.logistic_fits
except MissingDependencyError as error:
    print(error)
"""


def test_registration_needs_no_extra() -> None:
    house = ROOT / "src" / "plueckernet" / "demo" / "house_monday.obj"
    run = subprocess.run([sys.executable, "-c", SCRIPT, house], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "scipy is not installed: pip install 'plueckernet[extract]'",
        "scipy is not installed: pip install 'plueckernet[evaluate]'",
    ]


def test_every_extra_that_is_named_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        calls = re.findall(r"raise MissingDependencyError\(([^)]*)\)", path.read_text(encoding="utf-8"))
        named |= {names[1] for call in calls if len(names := re.findall(r'"([^"]+)"', call)) > 1}
    assert named <= extras
    assert {"extract", "bim", "mesh"} <= named


def test_the_citation_has_the_version_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {plueckernet.__version__}\n" in citation
