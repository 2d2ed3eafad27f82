"""What a command imports before it works, by the names of the modules: seconds depend on the machine."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest

import plueckernet
from plueckernet.cli.starting import quick_imports

DEMO = Path(plueckernet.__file__).parent / "demo"
SHORT_COMMANDS = {
    "register": ["register", f"{DEMO}/house_monday.obj", f"{DEMO}/house_friday.txt"],
    "info": ["info", f"{DEMO}/house_monday.obj"],
}
NEVER_NEEDED = {
    "cv2",
    "ezdxf",
    "laspy",
    "matplotlib",
    "onnx",
    "pandas",
    "plueckernet.batch",
    "plueckernet.data",
    "plueckernet.evaluation",
    "plueckernet.extraction.point_cloud",
    "plueckernet.interop",
    "plueckernet.merging",
    "plueckernet.moving",
    "plueckernet.odometry",
    "plueckernet.preparation",
    "plueckernet.report.cards",
    "plueckernet.report.page",
    "plueckernet.report.plot",
    "plueckernet.sensing",
    "plueckernet.training",
    "plueckernet.viewer",
    "scipy",
    "sympy",
    "tensorboard",
    "torch._dynamo",
    "torch._inductor",
    "torch.utils.tensorboard",
    "trimesh",
}
SCRIPT = """
import gc, json, sys
from plueckernet.cli import main
before = "torch" in sys.modules
try:
    main()
except SystemExit as ended:
    state = {"before": before, "code": ended.code, "modules": sorted(sys.modules)}
    print(json.dumps(state | {"collects": gc.isenabled(), "frozen": gc.get_freeze_count()}), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", SHORT_COMMANDS.values(), ids=SHORT_COMMANDS)
def test_a_short_command_imports_what_it_needs(arguments: list[str]) -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)
    state = json.loads(run.stderr.splitlines()[-1])
    assert state["code"] in (0, None)
    assert not state["before"]
    assert "torch" in state["modules"]
    assert NEVER_NEEDED.isdisjoint(state["modules"])
    assert state["collects"]
    assert state["frozen"] > 100_000, "PyTorch was imported before quick_imports()"


def test_quick_imports_collect_no_garbage() -> None:
    script = """
import gc, sys
from plueckernet.cli.starting import quick_imports
try:
    with quick_imports():
        assert not gc.isenabled() and "torch" not in sys.modules
        import a_module_that_is_not_there
except ImportError:
    pass
assert gc.isenabled() and gc.get_freeze_count() > 0
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_where_pytorch_is_imported_nothing_changes() -> None:
    frozen = gc.get_freeze_count()
    import torch  # noqa: F401

    with quick_imports():
        assert gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen
