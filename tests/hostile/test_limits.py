"""Every hostile file gives one of our errors in under 5 s and 1 GB, in a process with limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hostile.files import HOSTILE, write

SECONDS, BYTES = 5.0, 1 << 30
CHILD = """
import json, resource, sys, time
from pathlib import Path
from plueckernet.errors import PlueckernetError
from tests.hostile.readers import readers

known = readers()
resource.setrlimit(resource.RLIMIT_DATA, (%d, %d))
for line in sys.stdin:
    kind, path = json.loads(line)
    start = time.process_time()
    try:
        known[kind](Path(path))
        told = "accepted"
    except PlueckernetError as error:
        told = str(error)
    except BaseException as error:
        told = f"FOREIGN {type(error).__name__}: {error}"
    peak = next(1024 * int(row.split()[1]) for row in open("/proc/self/status") if row.startswith("VmHWM"))
    print(json.dumps([told, time.process_time() - start, peak]), flush=True)
""" % (2 * BYTES, 2 * BYTES)  # noqa: UP031 - braces are in the program


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, float, int]]:
    """What each file gave, how long it took, and the highest use of memory so far."""
    pytest.importorskip("ezdxf", reason="ezdxf is not installed")
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell the memory of a process")
    folder: Path = tmp_path_factory.mktemp("hostile")
    write(folder)
    jobs = "".join(json.dumps([kind, str(folder / name)]) + "\n" for name, (kind, _) in HOSTILE.items())
    places = os.pathsep.join(path for path in sys.path if path)
    child = subprocess.run(
        [sys.executable, "-c", CHILD], input=jobs, capture_output=True, text=True, timeout=240, check=False,
        env=os.environ | {"PYTHONPATH": places}, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    rows = [json.loads(line) for line in child.stdout.splitlines()]
    assert len(rows) == len(HOSTILE), child.stderr[-2000:]
    return dict(zip(HOSTILE, map(tuple, rows), strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_an_error_in_little_time_and_memory(name: str, outcomes) -> None:
    told, seconds, peak = outcomes[name]
    assert name.partition(".")[0] in told, told
    assert told != "accepted"
    assert "FOREIGN" not in told
    assert seconds < SECONDS
    assert peak < BYTES
