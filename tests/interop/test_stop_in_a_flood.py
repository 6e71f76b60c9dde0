"""A router that is stopped while a client floods it stops before it has processed the flood."""

from __future__ import annotations

import os
import signal

from tests.interop.raw_client import Ended, RawClient
from tests.kit import frames
from tests.kit.fixtures import StartRouter
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Begin

BEGINS = 32_000
STOP_S = 30.0


def test_sigterm_is_heard_during_a_flood_of_begins(start_router: StartRouter) -> None:
    router = start_router()
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
            pass
    assert answered < BEGINS - 1
    wait_until(lambda: not router.alive(), STOP_S, router.log_tail)
    assert router.stop() == 0
