"""Files that the page sends arrive on disk, in order, and within limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("viser", reason="viser is not installed")

from plueckernet.viewer.uploads import MAX_UPLOADS, Uploads


class Server:
    """What `Uploads` needs of viser."""

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.handlers: dict[str, object] = {}
        self._websock_server = self

    def unregister_handler(self, kind: type) -> None:
        self.handlers.pop(kind.__name__, None)

    def register_handler(self, kind: type, handler: object) -> None:
        self.handlers[kind.__name__] = handler

    def on_client_disconnect(self, leave: object) -> None:
        self.leave = leave

    def get_clients(self) -> dict[int, object]:
        return {}

    def queue_message(self, message: object) -> None:
        self.sent.append(message)


class Page:
    """A page with one upload button."""

    def __init__(self, folder: Path, max_bytes: int = 100) -> None:
        self.server, self.folder = Server(), folder
        self.files: list[tuple[str, bytes]] = []
        self.refused: list[str] = []
        uploads = Uploads(
            self.server, folder, lambda _, path, __: self.files.append((path.name, path.read_bytes())),
            lambda _, reason: self.refused.append(reason), max_bytes,
        )  # fmt: skip
        self.button = uploads.accept(SimpleNamespace(_impl=SimpleNamespace(uuid="button")))

    def start(self, transfer: str, size: int, parts: int, name: str = "a.obj", button: str = "button") -> None:
        message = SimpleNamespace(
            source_component_uuid=button, transfer_uuid=transfer, filename=name, part_count=parts, size_bytes=size
        )
        self.server.handlers["FileTransferStartUpload"](7, message)

    def send(self, transfer: str, index: int, content: bytes, client: int = 7) -> None:
        message = SimpleNamespace(transfer_uuid=transfer, part_index=index, content=content)
        self.server.handlers["FileTransferPart"](client, message)

    def settle(self) -> list[Path]:
        """What is left on disk after the last file was taken."""
        end = time.monotonic() + 5
        while list(self.folder.iterdir()) and time.monotonic() < end:
            time.sleep(0.01)
        return list(self.folder.iterdir())


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    return Page(tmp_path)


def test_a_file_is_received_and_removed_after_reading(page: Page) -> None:
    page.start("t", 6, 2)
    page.send("t", 0, b"abc")
    page.send("t", 1, b"def")
    page.start("empty", 0, 0)
    assert page.settle() == []
    assert sorted(page.files) == [("a.obj", b""), ("a.obj", b"abcdef")]
    assert page.refused == []
    assert [message.transferred_bytes for message in page.server.sent] == [3, 6, 0]


@pytest.mark.parametrize("name", ["../../a", "..", "/etc/passwd", "C:\\x\\y.obj", "\0", "x" * 5000])
def test_names_stay_in_their_folder(page: Page, name: str) -> None:
    page.start("t", 1, 1, name=name)
    page.send("t", 0, b"a")
    assert page.settle() == []
    assert len(page.files) == 1


def test_what_is_not_as_announced_is_dropped(page: Page) -> None:
    page.start("too large", 101, 1)
    assert "command line" in page.refused.pop()
    page.start("longer", 3, 1)
    page.send("longer", 0, b"abcd")
    page.start("shorter", 3, 1)
    page.send("shorter", 0, b"ab")
    page.start("order", 3, 2)
    page.send("order", 1, b"ab")
    assert page.refused == ["the file did not arrive as announced"] * 3
    page.start("other button", 3, 1, button="unknown")
    page.send("other button", 0, b"abc")
    assert page.settle() == []
    assert page.files == []


def test_the_number_of_files_is_bounded_and_a_closed_page_frees_them(page: Page) -> None:
    for number in range(MAX_UPLOADS + 1):
        page.start(f"t{number}", 3, 1)
    assert "too many" in page.refused.pop()
    page.send("t0", 0, b"abc", client=8)  # of another page
    assert page.files == []
    page.server.leave(SimpleNamespace(client_id=7))
    assert page.settle() == []
    page.start("again", 1, 1)
    page.send("again", 0, b"a")
    assert page.settle() == []
    assert page.files == [("a.obj", b"a")]


def test_no_page_can_ask_for_a_public_address(page: Page) -> None:
    assert "ShareUrlRequest" not in page.server.handlers
