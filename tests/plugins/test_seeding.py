"""The suite fails when a test is random: shown by running pytest on tests that are and tests that are not."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest
from tests.plugins.seeding import unseeded_torch_generators
from tests.plugins.shuffling import shuffled

ROOT = Path(__file__).resolve().parents[2]

SEEDED = """
def test_torch():
    torch.manual_seed(0)
    torch.rand(3)

def test_a_module_is_initialised():
    torch.manual_seed(0)
    torch.nn.Linear(3, 3)

def test_generators():
    torch.rand(3, generator=torch.Generator().manual_seed(0))
    np.random.default_rng(0).random()
    random.Random(0).random()

def test_numpy():
    np.random.seed(0)
    np.random.rand()

def test_python():
    random.seed(0)
    random.random()

def test_a_fork_is_undone():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        torch.rand(3)

def test_the_standard_library_draws():
    from email.mime.multipart import MIMEMultipart
    MIMEMultipart().as_string()

def test_nothing_is_drawn():
    pass
"""

UNSEEDED = {
    "torch.rand(3)": "torch's global generator was drawn from without a seed",
    "torch.nn.Linear(3, 3)": "torch's global generator",
    "torch.rand(3); torch.manual_seed(0)": "torch's global generator",
    "with torch.random.fork_rng(devices=[]): torch.manual_seed(0)\n    torch.rand(3)": "torch's global generator",
    "np.random.rand()": "NumPy's global generator",
    "np.random.rand(); np.random.seed(0)": "NumPy's global generator",
    "random.random()": "Python's random",
    "random.shuffle([1, 2]); random.seed(0)": "Python's random",
    "state = random.getstate(); random.seed(0); random.setstate(state); random.random()": "Python's random",
    "np.random.default_rng()": "default_rng() is random in every run",
    "torch.seed()": "torch.seed() is random in every run",
}
FIXTURE = """
@pytest.fixture(scope="module")
def weights():
    return torch.rand(3)

def test_of_fixture(weights):
    pass
"""
HYPOTHESIS = """
from hypothesis import given, settings, strategies

@settings(derandomize=True, database=None)
@given(strategies.integers())
def test_examples(number):
    random.random()

def test_after_the_examples():
    pass
"""
CHANGES = {"threads": "torch.set_num_threads(3)", "variable": "os.environ['NEW'] = '1'", "folder": "os.chdir('/')"}
IMPORTS = "import os\nimport random\nimport numpy as np\nimport pytest\nimport torch\n"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says about all of these, run once."""
    folder = tmp_path_factory.mktemp("tests")
    (folder / "pytest.ini").write_text("[pytest]\n")
    unseeded = [f"def test_{i}():\n    {body}\n" for i, body in enumerate(UNSEEDED)]
    files = {
        "seeded": SEEDED,
        "unseeded": "\n".join([*unseeded, FIXTURE]),
        "hypothesis": HYPOTHESIS,
        "imported": "LINES = torch.rand(3)\ndef test_it(): pass\n",
        **{name: f"def test_it(): {change}\n" for name, change in CHANGES.items()},
    }
    for name, source in files.items():
        (folder / f"test_{name}.py").write_text(IMPORTS + source)
    plugins = ("-p", "tests.plugins.seeding", "-p", "tests.plugins.shuffling", "-p", "no:cacheprovider")
    options = ("-c", str(folder / "pytest.ini"), "-v", "-rA", "--continue-on-collection-errors", "--shuffle", "random")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *plugins, str(folder)],
        env={**os.environ, "COLUMNS": "300"}, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.stdout


def outcomes(output: str, module: str) -> dict[str, str]:
    """The line of the summary of each test of one of the files."""
    lines = re.findall(rf"^(?:PASSED|FAILED|ERROR) \S*/test_{module}\.py.*$", output, re.MULTILINE)
    return {re.split(r"::| - ", line)[1]: line for line in lines}


@pytest.mark.parametrize(("module", "count"), [("seeded", 8), ("hypothesis", 2)])
def test_seeded_tests_pass(output, module, count):
    lines = outcomes(output, module).values()
    assert [line.split()[0] for line in lines] == ["PASSED"] * count, output


def test_unseeded_tests_fail_and_the_generator_is_named(output):
    lines = outcomes(output, "unseeded")
    for i, message in enumerate(UNSEEDED.values()):
        assert lines[f"test_{i}"].startswith("FAILED")
        assert message in lines[f"test_{i}"]
    assert "torch's global generator" in lines["test_of_fixture"]
    assert len(lines) == len(UNSEEDED) + 1


def test_a_module_draws_nothing_when_it_is_imported(output):
    (line,) = outcomes(output, "imported").values()
    assert line.startswith("ERROR")
    assert "torch's global generator was drawn from without a seed" in line


@pytest.mark.parametrize("module", CHANGES)
def test_a_module_leaves_the_process_unchanged(output, module):
    lines = re.findall(rf"^ERROR \S*/test_{module}\.py::test_it - .*leaves the process changed", output, re.MULTILINE)
    assert len(lines) == 1


def test_a_random_order_is_named_so_that_it_can_be_repeated(output):
    (line,) = [line for line in output.splitlines() if line.startswith("order:")]
    assert line.split()[-1].isdigit()


@dataclass(frozen=True)
class Item:
    """As much of a test as the order needs."""

    path: Path
    name: str


def test_the_order_follows_the_seed():
    items = [Item(Path(f"test_{module}.py"), f"test_{i}") for module in range(8) for i in range(5)]
    once, again, other = (shuffled(items, seed) for seed in ("1", "1", "2"))
    assert once == again
    assert len({*map(tuple, (items, once, other))}) == 3
    assert {*once} == {*other} == {*items}
    modules = [item.path for item in once]
    assert [path for path, _ in groupby(modules)] == list(dict.fromkeys(modules)), "modules stay together"


def test_generators_of_torch_are_given_a_seed():
    example = "a = torch.Generator()\nb = torch.Generator().manual_seed(0)\nc = torch.Generator('cuda')"
    assert unseeded_torch_generators(example) == [1, 3]
    files = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    unseeded = {str(path): lines for path, text in files.items() if (lines := unseeded_torch_generators(text))}
    assert not unseeded
