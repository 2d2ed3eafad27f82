"""The web server of the viewer: answers what passes the gate, one thread for each request."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from threading import Semaphore, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from plueckernet.errors import InputError, PlueckernetError
from plueckernet.viewer.gate import HEADERS, Gate

_MAX_CONNECTIONS = 64  # at the same time
_MAX_BODY = 1 << 16  # bytes of an action; files have their own limit
_TIMEOUT = 60.0  # seconds without a byte
_PORTS_TRIED = 100


@dataclass(frozen=True)
class Request:
    """What an action may know of a request."""

    query: Mapping[str, str]
    size: int  # of the body, in bytes
    body: BufferedIOBase

    def document(self) -> dict[str, Any]:
        """The body as JSON."""
        if not 0 <= self.size <= _MAX_BODY:
            raise InputError("the request is too large")
        try:
            document = json.loads(self.body.read(self.size) or b"{}")
        except ValueError as error:
            raise InputError("the request is not JSON") from error
        if not isinstance(document, dict):
            raise InputError("the request is not an object")
        return document


@dataclass(frozen=True)
class Answer:
    """The body of a response and what it is; a name makes the browser save it."""

    body: bytes
    kind: str = "application/json"
    name: str | None = None
    nonce: str = ""  # of the scripts of a page

    @classmethod
    def of(cls, document: object) -> Answer:
        """A JSON document."""
        return Answer(json.dumps(document, allow_nan=False).encode())

    def headers(self) -> dict[str, str]:
        """The headers of the response, with those that keep other pages out."""
        rules = "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; form-action 'none'"
        script = f"; script-src 'nonce-{self.nonce}'" if self.nonce else ""
        named = {"Content-Disposition": f'attachment; filename="{self.name}"'} if self.name else {}
        return {
            **HEADERS,
            "Content-Type": self.kind,
            "Content-Length": str(len(self.body)),
            "Content-Security-Policy": f"{rules}{script}; frame-ancestors 'none'; base-uri 'none'",
            **named,
        }


@dataclass(frozen=True)
class Routes:
    """What the server answers: actions by method and path, and a stream of events."""

    actions: Mapping[tuple[str, str], Callable[[Request], Answer]]
    events: Callable[[Callable[[bytes], None]], None]  # sends until the page is gone


class ViewerServer(ThreadingHTTPServer):
    """Serves the routes on the first free port from ``port`` on."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, gate: Gate, port: int, routes: Routes) -> None:
        self.gate, self.routes = gate, routes
        self._free = Semaphore(_MAX_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in gate.host else socket.AF_INET
        for number in range(port, min(port + _PORTS_TRIED, 65536)):
            try:
                super().__init__((gate.host, number), _Handler)
            except OSError as error:
                failure = error
            else:
                break
        else:
            reason = failure.strerror or failure
            raise InputError(f"{gate.host}:{port}: cannot be served: {reason}") from failure
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection; more than a bounded number are closed."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that goes away in the middle of an answer is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: ViewerServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "plueckernet", ""
    timeout = _TIMEOUT

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: addresses have the token."""

    def _respond(self) -> None:
        gate, routes = self.server.gate, self.server.routes
        self.close_connection = True
        refusal = gate.refusal(self.command, self.path, self.headers)
        if refusal is not None:
            self._send(HTTPStatus.FORBIDDEN, Answer(f"{refusal}\n".encode(), "text/plain; charset=utf-8"))
            return
        path = gate.inner_path(self.path)
        if (self.command, path) == ("GET", "/events"):
            self._stream(routes)
            return
        action = routes.actions.get((self.command, path))
        if action is None:
            self._send(HTTPStatus.NOT_FOUND, Answer(b"not here\n", "text/plain"))
            return
        try:
            answer, status = action(self._request()), HTTPStatus.OK
        except PlueckernetError as error:
            answer, status = Answer.of({"error": str(error)}), HTTPStatus.CONFLICT
        self._send(status, answer)

    def _request(self) -> Request:
        size = self.headers.get("Content-Length", "0")
        query = dict(parse_qsl(urlsplit(self.path).query))
        return Request(query, int(size) if size.isascii() and size.isdigit() else -1, self.rfile)

    def _send(self, status: HTTPStatus, answer: Answer) -> None:
        self.send_response(status)
        for name, value in answer.headers().items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)

    def _stream(self, routes: Routes) -> None:
        """Server-sent events."""
        self.send_response(HTTPStatus.OK)
        for name, value in (HEADERS | {"Content-Type": "text/event-stream"}).items():
            self.send_header(name, value)
        self.end_headers()

        def send(content: bytes) -> None:
            self.wfile.write(content)
            self.wfile.flush()

        routes.events(send)


def page_nonce() -> str:
    """A random word that lets the scripts of one page run."""
    return secrets.token_urlsafe(16)
