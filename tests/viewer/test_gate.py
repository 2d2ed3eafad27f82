"""Who may talk to the viewer, by the headers of a request and over real sockets."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("viser", reason="viser is not installed")

from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from plueckernet.viewer import Viewer
from plueckernet.viewer.gate import Gate

GATE = Gate("127.0.0.1", "secret")


def refusal(gate: Gate = GATE, path: str = "/secret/", **headers: str) -> str | None:
    return gate.refusal(path, Headers({"Host": "127.0.0.1:8080"} | headers))


def test_the_own_page_passes() -> None:
    own = {"Upgrade": "websocket", "Origin": "http://127.0.0.1:8080"}
    assert refusal() is None
    assert refusal(**own) is None
    assert refusal(path="/secret", **own) is None
    assert refusal(Host="localhost:9000", Origin="http://localhost:9000") is None  # a forwarded port


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8080"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "[::1"},
        {"Host": "192.0.2.7:8080"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Upgrade": "websocket"},
        {"Upgrade": "WebSocket", "Origin": "http://evil.example"},
    ],
)
def test_foreign_hosts_and_origins_are_refused(headers: dict[str, str]) -> None:
    assert refusal(**headers) is not None


@pytest.mark.parametrize("path", ["/", "/index.html", "/secre/", "/secrets/", "/x?/secret/", "//secret/", "/\udcff"])
def test_addresses_without_the_token_are_refused(path: str) -> None:
    assert "token" in str(refusal(path=path.encode("utf-8", "replace").decode()))


def test_a_public_viewer_answers_by_address_and_not_by_foreign_names() -> None:
    gate = Gate("0.0.0.0", "secret")
    assert refusal(gate, Host="192.0.2.7:8080") is None
    assert refusal(gate, Host="evil.example:8080") is not None


def test_tokens_differ() -> None:
    assert Gate("127.0.0.1").token != Gate("127.0.0.1").token
    assert Gate("::1", "t").url(80) == "http://127.0.0.1:80/t/"
    assert Gate("2001:db8::1", "t").url(80) == "http://[2001:db8::1]:80/t/"


@pytest.fixture(scope="module")
def viewer() -> Iterator[Viewer]:
    started = Viewer(port=18280)
    yield started
    started.stop()


def test_the_server_answers_only_the_address_with_the_token(viewer: Viewer) -> None:
    def get(path: str, **headers: str) -> tuple[int, str | None, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=10)) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers["X-Frame-Options"], answer.read()

    page = f"/{viewer._gate.token}/"
    status, frames, body = get(page)
    assert (status, frames) == (200, "DENY")
    assert b"<html" in body[:300].lower()
    assert get("/")[0] == 403
    assert get(page, Host="evil.example")[0] == 403
    assert get(page, Origin="http://evil.example")[0] == 403
    assert get(f"{page}../../../etc/hostname")[0] == 404


def test_a_websocket_needs_token_and_origin(viewer: Viewer) -> None:
    import viser

    place, origin = f"ws://127.0.0.1:{viewer.port}", f"http://127.0.0.1:{viewer.port}"
    protocol = [f"viser-v{viser.__version__}"]
    with connect(f"{place}/{viewer._gate.token}", origin=origin, subprotocols=protocol) as socket:
        assert socket.recv(timeout=10)
    for path, other in ((f"/{viewer._gate.token}", "http://evil.example"), ("/", origin), ("", None)):
        with pytest.raises(InvalidStatus), connect(place + path, origin=other, subprotocols=protocol):
            pass
