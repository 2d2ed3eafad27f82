"""Files that the page sends arrive on disk, within limits, and are deleted after they were read."""

from __future__ import annotations

from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import pytest

from plueckernet.errors import InputError
from plueckernet.viewer.uploads import MAX_UPLOADS, Uploads


def test_a_file_is_received_and_removed_after_reading(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    with uploads.received("a.obj", 6, BytesIO(b"abcdefgh")) as path, uploads.received("a.obj", 0, BytesIO()) as empty:
        assert (path.name, path.read_bytes(), empty.read_bytes()) == ("a.obj", b"abcdef", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../../a", "..", "/etc/passwd", "C:\\x\\y.obj", "\0", "", "x" * 5000])
def test_names_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    with Uploads(tmp_path).received(name, 1, BytesIO(b"a")) as path:
        assert path.parent.parent == tmp_path
        assert path.read_bytes() == b"a"


@pytest.mark.parametrize(("size", "words"), [(101, "command line"), (-1, "command line"), (50, "not arrive")])
def test_what_is_not_as_announced_is_dropped(tmp_path: Path, size: int, words: str) -> None:
    with pytest.raises(InputError, match=words), Uploads(tmp_path, 100).received("a", size, BytesIO(b"abc")):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_number_of_files_is_bounded_and_freed(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    with ExitStack() as stack:
        for _ in range(MAX_UPLOADS):
            stack.enter_context(uploads.received("a", 1, BytesIO(b"a")))
        with pytest.raises(InputError, match="too many"), uploads.received("a", 1, BytesIO(b"a")):
            pass
    with uploads.received("a", 1, BytesIO(b"a")) as path:
        assert path.exists()
