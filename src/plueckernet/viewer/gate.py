"""Who may talk to the viewer: requests with the token in their address, from the viewer's own page.

Any web page that is open in the same browser can send requests to this machine. Three things keep it out. The address
has a random token. `Host` must name this machine, so that a foreign name that resolves to it is refused. `Origin`,
which browsers send with every request that changes something, must be the viewer's own.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from email.message import Message
from urllib.parse import urlsplit

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_EVERYWHERE = frozenset(("", "0.0.0.0", "::"))
HEADERS = {
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Gate:
    """Which requests are answered."""

    host: str  # the address the viewer listens on
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    def url(self, port: int) -> str:
        """The address of the page."""
        host = "127.0.0.1" if self.host in _LOOPBACK else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/{self.token}/"

    def refusal(self, method: str, path: str, headers: Message) -> str | None:
        """Why a request is refused, or None."""
        hosts, origins = headers.get_all("Host", ()), headers.get_all("Origin", ())
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return "this address is not the viewer's"
        if len(origins) > 1 or (method != "GET" and not origins):
            return "requests need one Origin"
        if origins and origins[0] not in (f"http://{hosts[0]}", f"https://{hosts[0]}"):
            return "this page is not the viewer's"
        if not secrets.compare_digest(_first_segment(path).encode("utf-8", "replace"), self.token.encode()):
            return "open the address that plueckernet view has printed, with its token"
        return None

    def inner_path(self, path: str) -> str:
        """The path behind the token, without a query."""
        return path.partition("?")[0].removeprefix(f"/{self.token}") or "/"

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


def _first_segment(path: str) -> str:
    return path.partition("?")[0].removeprefix("/").partition("/")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
