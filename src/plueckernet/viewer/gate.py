"""Who may talk to the viewer: requests with the token in their address, from the viewer's own page.

Any web page that is open in the same browser can send requests to this machine. Three things keep it out. The address
has a random token. `Host` must name this machine, so that a foreign name that resolves to it is refused. `Origin`,
which browsers send with every websocket, must be the viewer's own.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from plueckernet.errors import PlueckernetError

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_EVERYWHERE = frozenset(("", "0.0.0.0", "::"))
_MAX_MESSAGE = 4 << 20  # bytes; the page uploads files in pieces of half a megabyte
_HEADERS = {
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_serving = Lock()


@dataclass(frozen=True)
class Gate:
    """Which requests are answered."""

    host: str  # the address the viewer listens on
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    def url(self, port: int) -> str:
        """The address of the page."""
        host = "127.0.0.1" if self.host in _LOOPBACK else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/{self.token}/"

    def refusal(self, path: str, headers: Any) -> str | None:
        """Why a request is refused, or None; ``headers`` has `get_all` of names."""
        hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return "this address is not the viewer's"
        websocket = any(value.lower() == "websocket" for value in headers.get_all("Upgrade"))
        if len(origins) > 1 or (websocket and not origins):
            return "requests need one Origin"
        if origins and origins[0] not in (f"http://{hosts[0]}", f"https://{hosts[0]}"):
            return "this page is not the viewer's"
        if not secrets.compare_digest(_first_segment(path).encode(), self.token.encode()):
            return "open the address that plueckernet view has printed, with its token"
        return None

    def _is_own(self, value: str) -> bool:
        """Whether a `Host` names this machine; the port may be another after forwarding."""
        try:
            name = (urlsplit(f"//{value}").hostname or "").lower()
        except ValueError:
            return False
        if name in _LOOPBACK or name == self.host.lower():
            return True
        return self.host in _EVERYWHERE and (
            _is_address(name) or name in (socket.gethostname().lower(), socket.getfqdn().lower())
        )

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Servers that viser starts in this block answer only what passes the gate."""
        from websockets.asyncio import server

        installed = False
        plain = server.serve

        def serve(*arguments: Any, process_request: Callable[..., Any], **options: Any) -> Any:
            nonlocal installed
            installed = True
            options["max_size"] = min(_MAX_MESSAGE, options.get("max_size") or _MAX_MESSAGE)
            return plain(*arguments, process_request=self._checked(process_request), **options)

        with _serving:
            server.serve = serve  # type: ignore[assignment,misc]
            try:
                yield
            finally:
                server.serve = plain  # type: ignore[misc]
        if not installed:
            raise PlueckernetError("this version of viser serves its page in an unknown way; install the pinned one")

    def _checked(self, process_request: Callable[..., Any]) -> Callable[..., Any]:
        def process(connection: Any, request: Any) -> Any:
            reason = self.refusal(request.path, request.headers)
            if reason is not None:
                response = connection.respond(HTTPStatus.FORBIDDEN, f"{reason}\n")
            else:
                inner = request.path.partition("?")[0].removeprefix(f"/{self.token}") or "/"
                response = process_request(connection, replace(request, path=inner))
            if response is not None:
                for name, value in _HEADERS.items():
                    response.headers[name] = value
            return response

        return process


def _first_segment(path: str) -> str:
    return path.partition("?")[0].removeprefix("/").partition("/")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
