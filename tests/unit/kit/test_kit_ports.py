"""Free ports: no two users have the same one at the same time."""

from __future__ import annotations

import socket
from collections import deque

import pytest

from tests.kit import ports
from waymesh_operator.places.local import state

pytestmark = pytest.mark.engine_independent


def test_tests_and_local_meshes_have_ports_of_their_own() -> None:
    """A mesh may choose a port that a test has been given and has not used yet, and the other way around."""
    assert ports.LAST <= state.FIRST


def test_a_process_goes_around_within_its_own_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "MOST", 3)
    monkeypatch.setattr(ports, "_own", deque[int]())
    first = [ports.free_port() for _ in range(3)]
    assert len(set(first)) == 3
    assert [ports.free_port() for _ in range(3)] == first
    with socket.create_server(("127.0.0.1", first[0])):
        assert [ports.free_port() for _ in range(3)] == [first[1], first[2], first[1]]
