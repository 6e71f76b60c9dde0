"""All messages of a group go to one consumer of two routers as long as it is there, with proton clients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack

import proton
import pytest

from tests.interop.shared import fresh, wait_spread
from tests.kit.clients import Client, Receiver, Sender
from tests.kit.mesh import Mesh
from tests.kit.outcomes import Sent
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient
from waymesh_router.core.forwarding.groups import SLOTS

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

GROUPS = [f"order-{number}" for number in range(24)]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def address(line2: Mesh) -> str:
    """An address with message groups at both routers."""
    name = fresh("groups")
    for router in line2.routers:
        with ManagementClient(router.url) as client:
            client.create("router.config.address", {"prefix": name, "messageGroups": True}, name=name)
    return name


def consumer(stack: ExitStack, mesh: Mesh, router: str, address: str, credit: int = 500) -> Receiver:
    """A receiver on its own connection."""
    return stack.enter_context(Client(mesh[router].url)).receiver(address, credit)


def producers(stack: ExitStack, mesh: Mesh, address: str) -> list[Sender]:
    """One at each router."""
    return [stack.enter_context(Client(mesh[name].url)).sender(address) for name in "AB"]


def send(senders: list[Sender], rounds: int) -> list[Sent]:
    """Each sends a message of each group, again and again."""
    return [
        sender.send(proton.Message(group_id=group, body=f"{number}/{count}"))
        for count in range(rounds)
        for number, sender in enumerate(senders)
        for group in GROUPS
    ]


def take(consumers: list[Receiver], count: int) -> dict[str, dict[int, list[str]]]:
    """So many messages, accepted: bodies by group, and by the number of the consumer that got them."""
    wait_until(lambda: sum(one.arrived.qsize() for one in consumers) >= count, what=f"{count} messages")
    found: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for number, one in enumerate(consumers):
        for _ in range(one.arrived.qsize()):
            received = one.next()
            found[str(received.message.group_id)][number].append(str(received.message.body))
            received.accept()
    return found


def holders(found: dict[str, dict[int, list[str]]]) -> dict[str, int]:
    """The only consumer of each group; what each sender sent of it came in order."""
    for group, places in found.items():
        assert len(places) == 1, f"{group} went to {sorted(places)}"
        (bodies,) = places.values()
        for sender in "01":
            counts = [int(body.split("/")[1]) for body in bodies if body.startswith(sender)]
            assert counts == sorted(counts), f"{group}: {bodies}"
    return {group: next(iter(places)) for group, places in found.items()}


def test_a_group_is_at_one_consumer_of_two_routers(stack: ExitStack, line2: Mesh, address: str) -> None:
    consumers = [consumer(stack, line2, router, address) for router in "AA"]
    wait_spread(line2, address, 2, 0)
    consumers.append(consumer(stack, line2, "B", address))
    wait_spread(line2, address, 2, 1)
    sent = send(producers(stack, line2, address), 5)
    holders(take(consumers, len(sent)))
    assert [one.outcome() for one in sent] == ["accepted"] * len(sent)


def test_a_group_stays_when_others_come_and_goes_on_when_its_consumer_leaves(
    stack: ExitStack, line2: Mesh, address: str
) -> None:
    consumers = [consumer(stack, line2, "B", address)]
    wait_spread(line2, address, 0, 1)
    senders = producers(stack, line2, address)
    sent = send(senders, 2)
    assert set(holders(take(consumers, len(sent))).values()) == {0}
    consumers += [consumer(stack, line2, router, address) for router in "AB"]
    wait_spread(line2, address, 1, 2)
    sent += send(senders, 3)
    assert set(holders(take(consumers, len(GROUPS) * 6)).values()) == {0}, "all groups had one before"
    assert [one.outcome() for one in sent] == ["accepted"] * len(sent)
    consumers[0].client.close()
    wait_spread(line2, address, 1, 1)
    sent = send(senders, 3)
    found = holders(take(consumers[1:], len(sent)))
    assert found.keys() == set(GROUPS)
    assert [one.outcome() for one in sent] == ["accepted"] * len(sent)


def test_a_consumer_without_credit_stops_its_groups_only(stack: ExitStack, line2: Mesh, address: str) -> None:
    consumers = [consumer(stack, line2, "B", address, credit=1) for _ in range(2)]
    wait_spread(line2, address, 0, 2)
    senders = producers(stack, line2, address)[:1]
    sent = send(senders, 1)
    wait_until(lambda: all(one.arrived.qsize() == 1 for one in consumers), what="one message each")
    consumers[1].flow(100)

    # those that come only now prefer who has credit
    wait_until(lambda: consumers[1].arrived.qsize() >= len(GROUPS) // 2, what="the groups of the other one")
    assert consumers[0].arrived.qsize() == 1
    consumers[0].flow(100)
    holders(take(consumers, len(sent)))
    assert [one.outcome() for one in sent] == ["accepted"] * len(sent)


def test_messages_without_a_group_id_go_to_who_is_free(stack: ExitStack, line2: Mesh, address: str) -> None:
    consumers = [consumer(stack, line2, router, address) for router in "AA"]
    wait_spread(line2, address, 2, 0)
    sender = producers(stack, line2, address)[0]
    sent = sender.send_all(list(range(20)))
    wait_until(lambda: sum(one.arrived.qsize() for one in consumers) == 20, what="all messages")
    assert [one.arrived.qsize() for one in consumers] == [10, 10]
    take(consumers, 20)
    assert [one.outcome() for one in sent] == ["accepted"] * 20


def test_management_shows_the_slots(stack: ExitStack, line2: Mesh, address: str) -> None:
    consumers = [consumer(stack, line2, "A", address)]
    wait_spread(line2, address, 1, 0)
    sent = send(producers(stack, line2, address)[:1], 1)
    take(consumers, len(sent))
    with ManagementClient(line2["A"].url) as client:
        (row,) = [one for one in client.query("router.address") if one["key"] == f"M0{address}"]
        assert 20 <= row["groupSlots"] <= len(GROUPS) < SLOTS
        others = [one["groupSlots"] for one in client.query("router.address") if "groups" not in one["key"]]
        assert set(others) == {None}
