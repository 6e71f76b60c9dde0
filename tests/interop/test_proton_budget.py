"""Complete messages that wait for a consumer: clients are held at the budget, and all messages arrive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.shared import fresh, wait_consumers
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

KIB = 1 << 10
SIZE = 200 * KIB
"""Below the size from which a message waits in parts."""
NUMBER = 60
SENDERS = 3
LINK = 1024 * KIB
WINDOW = 32
MOST = LINK + WINDOW * 16 * KIB


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RouterProcess]:
    """A router whose links may have a mebibyte waiting each."""
    port = free_port()
    config = section("router", id="A", mode="standalone", maxBufferedBytesPerLink=LINK)
    config += section("listener", host="127.0.0.1", port=port, maxSessionFrames=WINDOW)
    router = RouterProcess(tmp_path, "A", config, [port])
    router.start()
    yield router
    router.stop()


def figures(router: RouterProcess) -> tuple[int, int]:
    """Bytes that wait, and links that are held for that."""
    with ManagementClient(router.url, timeout_s=30.0) as client:
        (found,) = client.query("router", ["bufferedBytes", "linksHeld"])
        return int(found["bufferedBytes"]), int(found["linksHeld"])


def test_clients_bring_no_more_than_the_budget_until_there_is_credit(router: RouterProcess) -> None:
    address = fresh()
    with ExitStack() as stack:
        receiver = stack.enter_context(Client(router.url)).receiver(address, credit=0)
        wait_consumers(router, address, local=1)
        sent = []
        for _ in range(SENDERS):
            sender = stack.enter_context(Client(router.url)).sender(address)
            sender.wait_credit(NUMBER)
            sent += [sender.send(bytes(SIZE)) for _ in range(NUMBER)]
        wait_until(lambda: figures(router)[1] == SENDERS, 30.0, lambda: f"senders to be held: {figures(router)}")
        assert SENDERS * LINK < figures(router)[0] <= SENDERS * MOST
        for _ in range(SENDERS * NUMBER):
            receiver.flow(1)
            receiver.take(1)
        assert {each.outcome() for each in sent} == {"accepted"}
        wait_until(lambda: figures(router) == (0, 0), 60.0, lambda: f"nothing to wait: {figures(router)}")
