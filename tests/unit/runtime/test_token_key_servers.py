"""Servers of keys whose answer never ends, and content that could take long to parse."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from tests.kit.tokens import Issuer
from tests.kit.waiting import DEADLINE_S
from tests.unit.runtime.test_token_keys import Kept, profile
from waymesh_router.runtime.tokens import keys as token_keys
from waymesh_router.runtime.tokens.keys import MAX_BYTES, KeysError, UrlSource, parse_keys

pytestmark = pytest.mark.engine_independent

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PACE_S = 0.05
"""Between two parts of an endless answer."""


class EndlessServer:
    """Answers the first request with `content`, and each later one with `start` and then `more` again and again."""

    def __init__(self, content: bytes, start: bytes, more: bytes) -> None:
        self._answers = [(OK + b"\r\n" + content, b""), (start, more)]
        self._end = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/keys"

    def __enter__(self) -> EndlessServer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            for start, more in (self._answers[0], *[self._answers[1]] * 5):
                sock, _ = self._listening.accept()
                with sock, contextlib.suppress(OSError):
                    sock.recv(65536)
                    sock.sendall(start)
                    while more and not self._end.wait(PACE_S):
                        sock.sendall(more)


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"H", b"T"), (OK + b"X: ", b"x"), (OK, b"\r\n x"), (OK + b"\r\n", b"{"), (CHUNKED + b"5;", b"x"),
        (CHUNKED + b"0\r\n", b"x: y\r\n"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["status", "header", "headers", "body", "chunk", "trailer", "continue"],
)  # fmt: skip
def test_answer_without_end_is_a_failure_after_which_keys_expire(
    start: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_keys, "STEP_S", DEADLINE_S)
    monkeypatch.setattr(token_keys, "REQUEST_S", DEADLINE_S)
    with EndlessServer(Issuer().jwks(), start, more) as server:
        kept = Kept(UrlSource(profile(keysUrl=server.url)), keep_s=60)
        assert kept.has("first")
        monkeypatch.setattr(token_keys, "REQUEST_S", 0.3)
        kept.now += 300
        reading = threading.Thread(target=kept.keys.refresh, daemon=True)
        reading.start()
        reading.join(DEADLINE_S)
        assert not reading.is_alive()
        assert "not read within 0.3 s; the keys read before stay in use for at most 60 s" in kept.reports[0][1]
        assert kept.has("first")
        kept.now += 61
        kept.keys.refresh()
        assert not kept.has("first")


def test_request_without_a_thread_for_its_time_limit_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    with EndlessServer(Issuer().jwks(), b"", b"") as server:
        kept = Kept(UrlSource(profile(keysUrl=server.url)))
        monkeypatch.setattr(threading.Timer, "start", start)
        assert not kept.has("first")
        assert "can't start new thread; there are no keys" in kept.reports[0][1]


@pytest.mark.parametrize("line", [b"-----BEGIN A-----\n", b"-----BEGIN PUBLIC KEY-----", b"-----BEGIN ", b"-"])
def test_content_of_begin_lines_is_parsed_in_little_time(line: bytes) -> None:
    """While a regular expression is matched, the router does nothing else."""
    before = time.thread_time()
    with pytest.raises(KeysError, match="no usable public key"):
        parse_keys(line * (MAX_BYTES // len(line)))
    assert time.thread_time() - before < 3
