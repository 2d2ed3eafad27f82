from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from plueckernet.errors import InputError
from plueckernet.io import atomic_write, atomic_write_bytes


def test_the_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_write(path) as handle:
        handle.write("ä\n")
        assert not path.exists()
    assert path.read_bytes() == "ä\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def fail() -> None:
        with atomic_write_bytes(path) as handle:
            handle.write(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    with atomic_write(link) as handle:
        handle.write("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "ours"):
        pass
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_device_is_written_directly() -> None:
    with atomic_write(os.devnull) as handle:
        handle.write("gone")
    assert not Path(os.devnull).is_file()


def test_what_cannot_be_written_is_our_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "a.txt"):
        with pytest.raises(InputError, match="cannot be written"), atomic_write(path) as handle:
            handle.write("x")


KILLED = """
import os, sys
from plueckernet.io import atomic_write
with atomic_write(sys.argv[1]) as stream:
    stream.write("half of it")
    stream.flush()
    if len(sys.argv) > 2:
        print("writing", flush=True)
        sys.stdin.read()
    else:
        os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_cleared_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "a.txt")]
    subprocess.run(command, env=environment, check=False)
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    (tmp_path / ".mine.part").write_text("not ours")
    with subprocess.Popen([*command, "wait"], env=environment, stdin=-1, stdout=-1) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with atomic_write(tmp_path / "b.txt") as stream:
            stream.write("whole")
        assert len(list(tmp_path.glob(".????????????.part"))) == 1  # of the process that still writes
        writer.communicate(b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine.part", "a.txt", "b.txt"]
    assert (tmp_path / "a.txt").read_text() == "half of it"
