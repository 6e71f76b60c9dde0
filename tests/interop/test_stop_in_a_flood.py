"""A router that is stopped while a client floods it stops before it has processed the flood."""

from __future__ import annotations

import os
import signal

from tests.interop.raw_client import Ended, RawClient
from tests.kit import frames
from tests.kit.fixtures import StartRouter
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Begin

BEGINS = 32_000
TRIES = 5
"""The router may have processed all of a flood before the signal comes: this says nothing."""
STOP_S = 60.0


def answered_in_a_flood(router: RouterProcess) -> int:
    """How many sessions of a flood the router has begun when it ends the connection, but for the first."""
    answered = 0
    with RawClient(router.port) as raw:
        raw.open()
        raw.send(b"".join(frames.begin(channel) for channel in range(BEGINS)))
        raw.expect(Begin)
        os.kill(router.pid, signal.SIGTERM)
        try:
            while True:
                answered += isinstance(raw.frame()[0], Begin)
        except Ended:
            return answered


def test_sigterm_is_heard_during_a_flood_of_begins(start_router: StartRouter) -> None:
    answered = BEGINS - 1
    for number in range(TRIES):
        router = start_router(f"A{number}")
        answered = answered_in_a_flood(router)
        wait_until(lambda router=router: not router.alive(), STOP_S, router.log_tail)  # type: ignore[misc]
        assert router.stop() == 0
        if answered < BEGINS - 1:
            break
    assert answered < BEGINS - 1
