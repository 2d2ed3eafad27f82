"""Who may talk to the viewer, by the headers of a request and over real sockets."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from email.message import Message

import pytest

from plueckernet.viewer import Viewer
from plueckernet.viewer.gate import Gate

GATE = Gate("127.0.0.1", "secret")


def refusal(gate: Gate = GATE, path: str = "/secret/", method: str = "GET", **headers: str) -> str | None:
    message = Message()
    for name, value in ({"Host": "127.0.0.1:8080"} | headers).items():
        message[name] = value
    return gate.refusal(method, path, message)


def test_the_own_page_passes() -> None:
    assert refusal() is None
    assert refusal(method="POST", Origin="http://127.0.0.1:8080") is None
    assert refusal(path="/secret/upload?name=x", method="POST", Origin="http://127.0.0.1:8080") is None
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
        {"method": "POST"},
        {"method": "POST", "Origin": "http://evil.example"},
    ],
)
def test_foreign_hosts_and_origins_are_refused(headers: dict[str, str]) -> None:
    assert refusal(**headers) is not None


@pytest.mark.parametrize("path", ["/", "/index.html", "/secre/", "/secrets/", "/x?/secret/", "//secret/", "/\udcff"])
def test_addresses_without_the_token_are_refused(path: str) -> None:
    assert "token" in str(refusal(path=path))


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


def answered(viewer: Viewer, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=10)) as connection:
        connection.request(method, path, body=body or None, headers=headers)
        answer = connection.getresponse()
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        return answer.status, answer.read()


def test_the_server_answers_only_the_address_with_the_token(viewer: Viewer) -> None:
    page = f"/{viewer._gate.token}/"
    status, body = answered(viewer, "GET", page)
    assert status == 200
    assert b"<html" in body[:300].lower()
    assert answered(viewer, "GET", "/")[0] == 403
    assert answered(viewer, "GET", page, Host="evil.example")[0] == 403
    assert answered(viewer, "GET", page, Origin="http://evil.example")[0] == 403
    assert answered(viewer, "GET", f"{page}../../../etc/hostname")[0] == 404


def test_actions_need_the_own_origin_and_make_sense(viewer: Viewer) -> None:
    own, place = f"http://127.0.0.1:{viewer.port}", f"/{viewer._gate.token}"
    assert answered(viewer, "POST", f"{place}/register")[0] == 403
    assert answered(viewer, "POST", f"{place}/register", Origin="http://evil.example")[0] == 403
    for path, body, words in (
        ("register", b"", b"two maps are needed"),
        ("refine", b'{"pose": 0}', b"two maps are needed"),
        ("refine", b'{"pose": -1}', b"expected the place of a pose"),
        ("refine", b"nonsense", b"not JSON"),
        ("refine", b"[]", b"not an object"),
        ("hand", b'{"quaternion": [0, 0, 0, 0], "translation": [0, 0, 0]}', b"above zero"),
        ("hand", b'{"quaternion": [1, 0, 0], "translation": [0, 0, 0]}', b"expected 4 numbers"),
        ("hand", b'{"quaternion": [1, 0, 0, 0], "translation": [0, 0, Infinity]}', b"expected 3 numbers"),
        ("hand", b" " * 70_000, b"too large"),
        ("upload?side=roof", b"x", b"the source or the target"),
    ):
        status, answer = answered(viewer, "POST", f"{place}/{path}", body, Origin=own)
        assert status == 409, path
        assert words in answer, (path, answer)
    assert answered(viewer, "GET", f"{place}/export?name=result.json")[0] == 409
    assert answered(viewer, "GET", f"{place}/upload")[0] == 404


def test_a_taken_port_is_left_alone(viewer: Viewer) -> None:
    other = Viewer(port=viewer.port)
    assert other.port > viewer.port
    other.stop()
