"""Files that the page sends: written to disk as they arrive, with limits on their size and number.

viser keeps a file in memory until it is complete, whatever its size; its handlers are replaced.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

MAX_UPLOAD_BYTES = 1 << 30  # of one file
MAX_UPLOADS = 4  # at the same time
_MAX_NAME = 120  # characters


@dataclass
class _Transfer:
    """A file that is arriving."""

    client_id: Any
    button: str
    path: Path
    size: int
    parts: int
    stream: BinaryIO
    received: int = 0
    next_part: int = 0

    def discard(self) -> None:
        self.stream.close()
        shutil.rmtree(self.path.parent, ignore_errors=True)


class Uploads:
    """Receives the files of upload buttons.

    ``received`` is called in its own thread with the id of the button, the file and the client; the file is deleted
    when it returns. ``refused`` is called with the id of the button and the reason.
    """

    def __init__(
        self,
        server: Any,
        folder: Path,
        received: Callable[[str, Path, Any], None],
        refused: Callable[[str, str], None],
        max_bytes: int = MAX_UPLOAD_BYTES,
    ) -> None:
        from viser import _messages as messages

        self._server, self._folder, self._max_bytes = server, folder, max_bytes
        self._received, self._refused = received, refused
        self._buttons: set[str] = set()
        self._transfers: dict[str, _Transfer] = {}
        self._acknowledge = messages.FileTransferPartAck
        handlers: Mapping[Any, Any] = {
            messages.FileTransferStartUpload: self._start,
            messages.FileTransferPart: self._part,
        }
        interface = server._websock_server
        for kind, handler in handlers.items():
            interface.unregister_handler(kind)
            interface.register_handler(kind, handler)
        # A page could otherwise ask for a public address of this viewer.
        interface.unregister_handler(messages.ShareUrlRequest)
        server.on_client_disconnect(lambda client: self._drop(client.client_id))

    def accept(self, button: Any) -> str:
        """Receive the files of a button; returns its id."""
        self._buttons.add(button._impl.uuid)
        return str(button._impl.uuid)

    def _start(self, client_id: Any, message: Any) -> None:
        button = message.source_component_uuid
        if button not in self._buttons or message.transfer_uuid in self._transfers:
            return
        reason = None
        if not 0 <= message.size_bytes <= self._max_bytes:
            reason = f"the file has more than {self._max_bytes / 1e6:,.0f} MB; open it on the command line"
        elif len(self._transfers) >= MAX_UPLOADS:
            reason = "too many files at the same time; wait and try again"
        if reason is not None:
            self._refused(button, reason)
            return
        path = Path(tempfile.mkdtemp(dir=self._folder)) / _plain_name(message.filename)
        transfer = _Transfer(client_id, button, path, message.size_bytes, message.part_count, path.open("wb"))
        self._transfers[message.transfer_uuid] = transfer
        if transfer.parts == 0:
            self._tell(message.transfer_uuid, transfer)
            self._finish(message.transfer_uuid, transfer)

    def _part(self, client_id: Any, message: Any) -> None:
        transfer = self._transfers.get(message.transfer_uuid)
        if transfer is None or transfer.client_id != client_id:
            return
        transfer.received += len(message.content)
        in_order = message.part_index == transfer.next_part < transfer.parts
        if not in_order or transfer.received > transfer.size:
            self._cancel(message.transfer_uuid, "the file did not arrive as announced")
            return
        try:
            transfer.stream.write(message.content)
        except OSError as error:
            self._cancel(message.transfer_uuid, f"the file cannot be kept: {error.strerror or error}")
            return
        transfer.next_part += 1
        self._tell(message.transfer_uuid, transfer)
        if transfer.next_part == transfer.parts:
            self._finish(message.transfer_uuid, transfer)

    def _finish(self, name: str, transfer: _Transfer) -> None:
        if transfer.received != transfer.size:
            self._cancel(name, "the file did not arrive as announced")
            return
        transfer.stream.close()
        client = self._server.get_clients().get(transfer.client_id)

        def take() -> None:
            try:
                self._received(transfer.button, transfer.path, client)
            finally:
                transfer.discard()
                self._transfers.pop(name, None)

        Thread(target=take, daemon=True).start()

    def _tell(self, name: str, transfer: _Transfer) -> None:
        self._server._websock_server.queue_message(
            self._acknowledge(transfer.button, name, transfer.received, transfer.size)
        )

    def _cancel(self, name: str, reason: str) -> None:
        transfer = self._transfers.pop(name)
        transfer.discard()
        self._refused(transfer.button, reason)

    def _drop(self, client_id: Any) -> None:
        """Forget the unfinished files of a page that was closed."""
        for name, transfer in list(self._transfers.items()):
            if transfer.client_id == client_id and not transfer.stream.closed:
                self._transfers.pop(name).discard()


def _plain_name(name: str) -> str:
    """A file name without folders; suffixes stay, because they may decide the format."""
    last = name.replace("\\", "/").rpartition("/")[2].replace("\0", "")
    return "map" if last in ("", ".", "..") else last[-_MAX_NAME:]
