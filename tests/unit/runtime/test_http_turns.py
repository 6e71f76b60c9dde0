"""How much of the router's time and sockets one HTTP client can use."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from select import EPOLLERR, EPOLLHUP
from typing import Any

import pytest

from waymesh_router.runtime.http.connection import FILE_BYTES, WRITES_PER_TURN, HttpConnection
from waymesh_router.runtime.http.message import Answer, Request, text_answer
from waymesh_router.runtime.loop import EPOLLIN, EPOLLOUT, Loop
from waymesh_router.runtime.transport.linger import MOST, READS_PER_TURN, Linger, Lingering

pytestmark = pytest.mark.engine_independent


class EagerSocket:
    """A socket whose peer always reads and sends. `calls`: the number of reads or writes."""

    def __init__(self) -> None:
        self.inner, self.peer = socket.socketpair()
        self.calls = 0
        self.written = 0
        self.request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    def recv(self, size: int) -> bytes:
        self.calls += 1
        return self.request

    def send(self, data: bytes) -> int:
        self.calls += 1
        self.written += len(data)
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.close()


def connection(loop: Loop, lingering: Lingering, sock: Any, answer: Answer) -> tuple[HttpConnection, list[Any]]:
    ended: list[Any] = []

    def respond(http: HttpConnection, request: Request) -> Answer:
        return answer

    return HttpConnection(loop, lingering, sock, 60.0, respond, lambda *how: ended.append(how)), ended


def test_a_closed_connection_whose_peer_goes_on_sending_gets_its_turn_only(loop: Loop) -> None:
    sock = EagerSocket()
    linger = Linger(loop, sock)  # type: ignore[arg-type]
    linger.on_event(EPOLLIN)
    assert sock.calls == READS_PER_TURN
    assert sock.fileno() >= 0, "it is still open"
    linger.abandon()


def test_a_large_file_is_sent_in_turns(loop: Loop, tmp_path: Path) -> None:
    size = 3 * WRITES_PER_TURN * FILE_BYTES
    (tmp_path / "large").write_bytes(bytes(size))
    sock = EagerSocket()
    file = (tmp_path / "large").open("rb")
    http, ended = connection(loop, Lingering(loop), sock, Answer(HTTPStatus.OK, file=file, size=size))
    turns = 0
    while not ended and turns < 10:
        before = sock.calls
        http.on_event(EPOLLIN if turns == 0 else EPOLLOUT)
        assert sock.calls - before <= WRITES_PER_TURN + 1
        turns += 1
    assert sock.written > size
    assert turns == 4
    assert file.closed


def waiting(loop: Loop, sock: EagerSocket) -> tuple[HttpConnection, list[Any]]:
    """A connection whose request has arrived and whose answer is awaited."""
    ended: list[Any] = []
    http = HttpConnection(loop, Lingering(loop), sock, 60.0, lambda *_: None, lambda *how: ended.append(how))  # type: ignore[arg-type]
    http.on_event(EPOLLIN)
    assert http.waits
    return http, ended


def test_input_while_the_answer_is_awaited_does_not_end_the_connection(loop: Loop) -> None:
    """The loop reports kept input of TLS once more, also if what epoll reported before completed the request."""
    sock = EagerSocket()
    http, ended = waiting(loop, sock)
    http.on_event(EPOLLIN)
    assert sock.calls == 1, "nothing more is read"
    http.answer_later(text_answer(HTTPStatus.OK, "OK"))
    http.on_event(EPOLLOUT)
    assert ended == [(http, None)]
    assert (http.refused, sock.written > 0) == ("", True)


@pytest.mark.parametrize("mask", [EPOLLHUP, EPOLLERR, EPOLLIN | EPOLLHUP])
def test_a_peer_that_leaves_while_the_answer_is_awaited_ends_the_connection(loop: Loop, mask: int) -> None:
    http, ended = waiting(loop, EagerSocket())
    http.on_event(mask)
    assert ended == [(http, None)]
    assert http.refused == "closed by the peer"


def test_sockets_of_answered_requests_are_counted_with_all_others_that_wait_for_their_peer(loop: Loop) -> None:
    lingering = Lingering(loop)
    for waiting in (0, MOST):
        lingering.count = waiting
        sock = EagerSocket()
        http, ended = connection(loop, lingering, sock, text_answer(HTTPStatus.OK, "OK"))
        http.on_event(EPOLLIN)
        assert ended == [(http, None)]
        assert lingering.count == max(1, waiting)
        assert (sock.fileno() < 0) == (waiting == MOST), "closed at once if too many wait"
