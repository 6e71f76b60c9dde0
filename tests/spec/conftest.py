"""Peers in the states that the rules start from; each test runs with each chunk size."""

from __future__ import annotations

import pytest

from tests.kit.pump import CHUNKS, Hub, Peer, core_hub
from tests.kit.recorder import Recorder


@pytest.fixture(params=CHUNKS, ids=lambda size: f"by{size}")
def chunk(request: pytest.FixtureRequest) -> int:
    """Bytes a read."""
    size: int = request.param
    return size


@pytest.fixture
def fresh(chunk: int) -> Peer:
    """Nothing was said yet."""
    return Hub(Recorder(), chunk).peer()


@pytest.fixture
def opened(fresh: Peer) -> Peer:
    """Opens were exchanged."""
    return fresh.open()


@pytest.fixture
def mapped(opened: Peer) -> Peer:
    """A session is on channel 0."""
    return opened.begin()


@pytest.fixture
def core(chunk: int) -> Hub:
    """A router's core, for what only somebody who forwards can show. Its peers read in chunks too."""
    return core_hub(chunk)
