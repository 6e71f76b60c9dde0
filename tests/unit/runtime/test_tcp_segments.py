"""The number of received segments, from the kernel's counter."""

from __future__ import annotations

import socket

import pytest

from tests.kit.waiting import wait_until
from waymesh_router.runtime.transport.tcp import data_segments_in

pytestmark = pytest.mark.engine_independent


def test_segments_count_before_anybody_reads_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            before = data_segments_in(accepted)
            client.sendall(b"something")
            wait_until(lambda: data_segments_in(accepted) == before + 1, what="a segment more")


def test_what_is_no_tcp_connection_has_none() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert data_segments_in(one) == 0
    assert data_segments_in(one) == 0
