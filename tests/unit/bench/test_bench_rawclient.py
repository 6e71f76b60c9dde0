"""The raw client of the bench, beside a server that says what it is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.bench.errors import BenchError
from tests.bench.rawclient import FLOW, RawClient
from tests.kit import frames

pytestmark = pytest.mark.engine_independent

WAIT_S = 30.0

Server = Callable[[bytes], int]


@pytest.fixture
def saying() -> Iterator[Server]:
    """Starts a server that opens a session, says these frames, and ends its stream; returns its port."""
    threads = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve(said: bytes) -> None:
            with closing(server.accept()[0]) as each:
                each.sendall(frames.AMQP + frames.open_() + frames.begin(remote_channel=0) + said)
                each.shutdown(socket.SHUT_WR)
                while each.recv(1 << 14):
                    pass

        def start(said: bytes) -> int:
            threads.append(threading.Thread(target=serve, args=(said,)))
            threads[-1].start()
            port: int = server.getsockname()[1]
            return port

        yield start
        for thread in threads:
            thread.join(WAIT_S)


def credit(deliveries: int, of: int, transfers: int, window: int) -> bytes:
    """A flow that has seen so many deliveries and transfers, and takes `of` and `window` more."""
    return frames.credit(of, 0, deliveries, next_incoming_id=transfers, incoming_window=window)


WIDE = credit(0, 100, 0, 100)


@pytest.mark.parametrize(
    ("last", "taken", "beyond"),
    [
        pytest.param(WIDE, (100, 100), (101, 100), id="all that was announced"),
        pytest.param(WIDE, (100, 100), (100, 101), id="all credit"),
        pytest.param(credit(90, 100, 90, 2), (92, 92), (93, 93), id="a smaller window"),
        pytest.param(credit(90, 2, 90, 100), (190, 92), (93, 93), id="less credit"),
    ],
)
def test_a_client_waits_for_the_window_and_credit_that_were_announced_last(
    saying: Server, last: bytes, taken: tuple[int, int], beyond: tuple[int, int]
) -> None:
    with RawClient(saying(WIDE + last), "raw") as client:
        client.wait(FLOW, 2)
        client.wait_for_window(*taken)
        with pytest.raises(BenchError, match="ended the connection"):
            client.wait_for_window(*beyond)
