"""The documentation's Python runs, page by page, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tests.cli.helpers import house
from tests.io.test_formats import city, surface

import plueckernet
from plueckernet.geometry import Pose
from plueckernet.io import write_lines

DOCS = Path(__file__).parents[1] / "docs"
NEEDS_DATA = {  # these are only compiled
    "datasets.md": "prepared datasets",
    "extraction.md": "a scan",
    "odometry.md": "a sequence",
    "training.md": "weights of one's own",
}


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


PAGES = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md")) if blocks(page)}


@pytest.fixture(scope="module")
def prelude() -> dict[str, object]:
    """What the pages talk about."""
    truth = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)
    source, target = house(), truth @ house()
    return {
        "pairs": [],
        "plueckernet": plueckernet,
        "result": plueckernet.register(source, target),
        "source": source,
        "sources": [source],
        "target": target,
        "targets": [target],
        "x": torch.zeros(3, dtype=torch.float64),
    }


@pytest.mark.parametrize("name", PAGES)
def test_code_runs(name: str, prelude: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("house_monday.obj", "house.obj"):
        write_lines(tmp_path / file, prelude["source"])
    write_lines(tmp_path / "house_friday.txt", prelude["target"])
    (tmp_path / "city.json").write_text(city(("roof", {"geometry": [surface("2.2", [0, 1, 2])]})))
    names = dict(prelude)
    for block in blocks(PAGES[name]):
        code = compile(block, name, "exec")
        if name not in NEEDS_DATA:
            exec(code, names)


def test_pages_that_need_data_exist() -> None:
    assert set(NEEDS_DATA) <= {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
