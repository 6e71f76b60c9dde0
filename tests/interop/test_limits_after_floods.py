"""Memory that the allocator keeps after a flood does not lock out those who come later. Decision 0062."""

from __future__ import annotations

import pytest

from tests.interop.raw_client import Ended, RawClient, Refused
from tests.kit import frames
from tests.kit.fixtures import StartRouter
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.by_exec]

MIB = 1 << 20
ROOM = 32 * MIB
"""What the router may use beyond what it has at the start."""
SESSIONS, PORTION = 32_767, 1024


def flood(port: int) -> None:
    """Begin as many sessions as a client may, and hang up."""
    with RawClient(port) as raw:
        try:
            raw.open(channel_max=65535)
            for first in range(0, SESSIONS, PORTION):
                channels = range(first, min(first + PORTION, SESSIONS))
                raw.send(b"".join(frames.begin(channel) for channel in channels))
                for _ in channels:
                    raw.frame()
        except (Ended, Refused, OSError):
            return  # memory is full


def served(port: int) -> bool:
    """Whether a new client gets its links and credit."""
    try:
        with RawClient(port) as raw:
            raw.open()
            raw.begin()
            raw.attach_receiver("new", credit=1)
            sender = raw.attach_sender("new")
            raw.transfer(sender, b"\x00Su\xa0\x011", settled=True)
            return raw.delivery()[1] == b"\x00Su\xa0\x011"
    except (Ended, Refused, AssertionError, OSError):
        return False


def test_newcomers_are_served_soon_after_floods(start_router: StartRouter) -> None:
    router = start_router()
    limit = router.resident_bytes() + ROOM
    with ManagementClient(router.url) as client:
        identity = client.read("router")["identity"]
        client.update({"maxMemory": limit}, "router", identity=identity)
    kept = []
    for _ in range(3):
        flood(router.port)
        wait_until(lambda: served(router.port), 60)
        kept.append(router.resident_bytes() / limit)
    with ManagementClient(router.url) as client:
        assert client.read("router")["memoryState"] == "normal", kept
