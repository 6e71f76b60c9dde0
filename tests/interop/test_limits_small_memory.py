"""A router in 64 MiB: hundreds of clients with messages fit, and what is too much is refused before the limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import waymesh_amqp
from tests.interop.raw_client import Ended, RawClient, Refused
from tests.kit.control_group import ControlGroup
from tests.kit.frames import attach_receiver
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Attach, Close, Detach
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

MIB = 1 << 20
LIMIT = 64 * MIB
CLIENTS, CLIENT_BYTES = (500, 48 << 10) if waymesh_amqp.engine() == "compiled" else (400, 60 << 10)
"""Objects of the interpreted engine are larger: 500 clients come within 1 MiB of the limit, or reach it."""
EACH = 10
LINKS, PORTION = 5000, 500
BODY = b"\x00\x53\x75\xb0\x00\x00\x04\x00" + bytes(1024)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[RouterProcess]:
    """A router in 64 MiB, with the settings that it gives itself in a container of that size."""
    group, port = ControlGroup(LIMIT), free_port()  # without the right to make one, only the peak is checked
    settings = {"id": "A", "mode": "standalone", "maxMemory": LIMIT * 85 // 100, "maxBufferedBytes": 16 * MIB}
    # Raw clients send no empty frames, and with 500 of them it takes a while until it is the first one's turn again.
    config = section("router", **settings) + section("listener", host="127.0.0.1", port=port, idleTimeoutSeconds=0)
    router = RouterProcess(tmp_path, "A", config, [port], group.within)
    try:
        yield router.start()
        assert router.alive(), router.log_tail()
        assert "internal error" not in router.log
    finally:
        router.stop()
        group.remove()


def peak(router: RouterProcess) -> int:
    """Bytes that the router needed at most, without pages of programs and libraries (13 MiB): at the limit of a
    container the kernel drops them. With them, a run on a busy machine came to 64.4 MiB, and was not killed."""
    return router.peak_bytes() - router.file_bytes()


def test_clients_with_links_and_messages_fit_into_64_mib(small: RouterProcess) -> None:
    before = small.resident_bytes()
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(small.port)) for _ in range(CLIENTS)]
        for number, client in enumerate(clients):
            client.open(container_id=f"client-{number}")
            client.begin()
            client.attach_receiver(f"inbox.{number}", credit=EACH * 3)
        senders = [
            client.attach_sender(f"inbox.{(number + 1) % CLIENTS}") for number, client in enumerate(clients)
        ]
        for settled in (True, False):
            for client, sender in zip(clients, senders, strict=True):
                for _ in range(EACH):
                    client.transfer(sender, BODY, settled=settled)
            for client in clients:
                for _ in range(EACH):
                    transfer, payload = client.delivery()
                    assert payload == BODY
                    if not settled:
                        assert transfer.delivery_id is not None
                        client.accept(transfer.delivery_id)
        with ManagementClient(small.url) as management:
            row = management.read("router")
        assert row["connectionCount"] >= CLIENTS
        assert row["memoryState"] != "full"
        assert peak(small) <= LIMIT
        assert (small.resident_bytes() - before) / CLIENTS <= CLIENT_BYTES


def test_what_does_not_fit_into_64_mib_is_refused_before_the_limit(small: RouterProcess) -> None:
    """Links without end: the watermark refuses them, and who was there before is served."""
    refused = ""
    with RawClient(small.port) as there, ExitStack() as stack:
        there.open()
        there.begin()
        there.attach_receiver("here", credit=10)
        sender = there.attach_sender("here")
        for number in range(40):
            try:
                client = stack.enter_context(RawClient(small.port))
                client.open(container_id=f"greedy-{number}")
                client.begin(handle_max=65535)
                refused = flooded(client, number)
            except Refused as refusal:  # the memory was full before this client began
                refused = refusal.condition
            except Ended:
                refused = "ended"
            if refused:
                break
        assert refused == "amqp:resource-limit-exceeded"
        there.transfer(sender, BODY, settled=True)
        assert there.delivery()[1] == BODY
        assert peak(small) <= LIMIT
    wait_until(lambda: "memory is full" in small.log, 60)


def flooded(client: RawClient, number: int) -> str:
    """Attach receivers with addresses of their own; the condition of the first one that is refused, "" if none is."""
    for first in range(0, LINKS, PORTION):
        handles = range(first, first + PORTION)
        client.send(b"".join(attach_receiver(f"r{n}", n, address=f"greedy.{number}.{n}") for n in handles))
        for _ in handles:
            answer, _ = client.frame()
            while not isinstance(answer, (Attach, Detach, Close)):
                answer, _ = client.frame()
            if not isinstance(answer, Attach):
                assert answer.error is not None
                return str(answer.error.condition)
    return ""
