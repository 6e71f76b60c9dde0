"""Ended links and sessions are freed at once: the collector of cycles, which would stop the router, is not needed."""

from __future__ import annotations

import gc

import pytest

from tests.kit import frames
from tests.kit.pump import Peer, core_hub


def garbage_after(links: int, end: str) -> int:
    """Objects that only the collector frees after so many links, each in a session of its own, have ended."""
    peer: Peer = core_hub().peer().open()
    for n in range(links):
        peer.begin(n)
        peer.send(frames.attach_receiver("in", 0, channel=n, address=f"a.{n}"))
    ends = {
        "detach": b"".join(frames.detach(0, channel=n) for n in range(links)),
        "end": b"".join(frames.end(n) for n in range(links)),
        "close": frames.close(),
    }
    gc.collect()
    gc.disable()
    try:
        peer.send(ends[end])
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.parametrize("end", ["detach", "end", "close"])
def test_links_leave_nothing_for_the_collector(end: str) -> None:
    assert garbage_after(40, end) == garbage_after(2, end)
