"""Destination of messages: links, `to`, dynamic, prefixes and patterns, local and topological. Dispatch book 2.3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import proton
import pytest

from tests.interop.shared import fresh, wait_consumers
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


# ---- anonymous senders
def test_anonymous_sender_reaches_any_address(line4: Mesh, stack: ExitStack) -> None:
    addresses = [fresh(), fresh("closest"), fresh("multicast")]
    consumer = stack.enter_context(Client(line4["D"].url))
    receivers = [consumer.receiver(address, 10) for address in addresses]
    for address in addresses:
        wait_consumers(line4["A"], address, 0, 1)
    sender = stack.enter_context(Client(line4["A"].url)).sender(None)
    sent = [sender.send(proton.Message(address=addresses[number % 3], body=number)) for number in range(9)]
    for number, receiver in enumerate(receivers):
        assert [r.body for r in receiver.take(3)] == [number, number + 3, number + 6]
    assert [s.outcome() for s in sent] == ["accepted"] * 9


@pytest.mark.parametrize("form", ["{}", "/{}", "amqp:/{}", "amqp://some.host:5672/{}", "amqp:{}"])
def test_forms_of_an_address(router1: RouterProcess, stack: ExitStack, form: str) -> None:
    address = fresh()
    client = stack.enter_context(Client(router1.url))
    receiver = client.receiver(address, 10)
    links = [client.sender(None), client.sender(form.format(address))]
    for sender in links:
        sent = sender.send(proton.Message(address=form.format(address), body="x"))
        receiver.next().accept()
        assert sent.outcome() == "accepted"


def test_anonymous_sender_without_a_consumer_gets_released(line2: Mesh, stack: ExitStack) -> None:
    sender = stack.enter_context(Client(line2["A"].url)).sender(None)
    assert sender.send(proton.Message(address=fresh(), body="x")).outcome() == "released"


def test_message_without_an_address_is_refused(router1: RouterProcess, stack: ExitStack) -> None:
    sender = stack.enter_context(Client(router1.url)).sender(None)
    assert sender.send(proton.Message(body="x")).outcome() == "rejected"


def test_to_of_a_message_does_not_matter_on_a_link_with_an_address(line2: Mesh, stack: ExitStack) -> None:
    address = fresh()
    receiver = stack.enter_context(Client(line2["B"].url)).receiver(address, 10)
    sent = stack.enter_context(Client(line2["A"].url)).sender(address).send(proton.Message(address="other", body="x"))
    received = receiver.next()
    assert received.message.address == "other"
    received.accept()
    assert sent.outcome() == "accepted"


# ---- dynamic reply-to
def test_request_and_reply_over_three_hops(line4: Mesh, stack: ExitStack) -> None:
    service = fresh()
    server, asking = stack.enter_context(Client(line4["D"].url)), stack.enter_context(Client(line4["A"].url))
    requests, answers = server.receiver(service, 50), server.sender(None)
    replies = asking.receiver(None, 50, dynamic=True)
    assert replies.address.startswith("amqp:/_topo/0/A/temp.")
    sender = asking.sender(service)
    sent = [
        sender.send(proton.Message(reply_to=replies.address, correlation_id=number, body=f"question {number}"))
        for number in range(10)
    ]
    answered = []
    for _ in range(10):
        request = requests.next()
        request.accept()
        message = request.message
        reply = proton.Message(address=message.reply_to, correlation_id=message.correlation_id, body=request.body[9:])
        answered.append(answers.send(reply))
    assert [(r.message.correlation_id, r.body) for r in replies.take(10)] == [(n, str(n)) for n in range(10)]
    assert [s.outcome() for s in sent + answered] == ["accepted"] * 20


def test_sender_to_a_dynamic_address(line4: Mesh, stack: ExitStack) -> None:
    """A link may be attached to another client's reply address, too, from any router."""
    replies = stack.enter_context(Client(line4["A"].url)).receiver(None, 10, dynamic=True)
    for router in line4.routers:
        sent = stack.enter_context(Client(router.url)).sender(replies.address).send(router.name)
        received = replies.next()
        assert received.body == router.name
        received.accept()
        assert sent.outcome() == "accepted"


def test_dynamic_addresses_differ_and_end_with_their_link(line2: Mesh, stack: ExitStack) -> None:
    client = stack.enter_context(Client(line2["A"].url))
    first, second = client.receiver(None, 10, dynamic=True, name="1"), client.receiver(None, 10, dynamic=True, name="2")
    address = first.address
    assert address != second.address
    first.close()
    sender = stack.enter_context(Client(line2["B"].url)).sender(None)
    assert sender.send(proton.Message(address=address, body="x")).outcome() == "released"
    sent = sender.send(proton.Message(address=second.address, body="y"))
    assert second.next().body == "y"
    assert not sent.settled.is_set()


# ---- local and topological
def test_local_address_stays_on_the_router(line2: Mesh, stack: ExitStack) -> None:
    here, there = stack.enter_context(Client(line2["A"].url)), stack.enter_context(Client(line2["B"].url))
    local, remote = here.receiver("_local/news", 10), there.receiver("_local/news", 10)
    for client, receiver in ((here, local), (there, remote)):
        sent = client.sender("_local/news").send("x")
        receiver.next().accept()
        assert sent.outcome() == "accepted"
    assert local.arrived.empty()
    assert remote.arrived.empty()


def test_topological_address_reaches_a_local_one_of_another_router(line4: Mesh, stack: ExitStack) -> None:
    receiver = stack.enter_context(Client(line4["D"].url)).receiver("_local/inbox", 10)
    client = stack.enter_context(Client(line4["A"].url))
    for sender in (client.sender("_topo/0/D/inbox"), client.sender(None)):
        sent = sender.send(proton.Message(address="_topo/0/D/inbox", body="x"))
        receiver.next().accept()
        assert sent.outcome() == "accepted"


def test_topological_address_of_an_unknown_router_or_name(line2: Mesh, stack: ExitStack) -> None:
    sender = stack.enter_context(Client(line2["A"].url)).sender(None)
    for address in ("_topo/0/NOBODY/inbox", "_topo/0/B/nothing-here"):
        assert sender.send(proton.Message(address=address, body="x")).outcome() == "released"


def test_management_of_a_remote_router(line4: Mesh, stack: ExitStack) -> None:
    client = stack.enter_context(Client(line4["A"].url))
    replies = client.receiver(None, 10, dynamic=True)
    request = proton.Message(
        reply_to=replies.address,
        properties={"operation": "QUERY", "entityType": "org.apache.qpid.dispatch.router"},
        body={"attributeNames": ["id"]},
    )
    sent = client.sender("_topo/0/D/$management").send(request)
    assert sent.outcome() == "accepted"
    assert replies.next().body["results"] == [["D"]]


# ---- prefixes and patterns
PATTERNS = [
    # (attribute, value, addresses that match, addresses that do not): routing chapter "Pattern Matching for Addresses"
    ("pattern", "news/*", ["news/europe", "news/usa", "news.usa"], ["news", "news/usa/sports"]),
    ("pattern", "news/#", ["news", "news/europe", "news/usa/sports", "news.usa"], ["europe", "usa"]),
    (
        "pattern",
        "news/europe/#",
        ["news/europe", "news/europe/sports", "news/europe/politics/fr"],
        ["news/usa", "europe"],
    ),
    ("pattern", "news/*/sports", ["news/europe/sports", "news/usa/sports"], ["news", "news/europe/fr/sports"]),
    ("prefix", "my_address", ["my_address", "my_address.1", "my_address/1"], ["my_address1"]),
]


def copies(client: Client, address: str) -> int:
    """How many of two consumers get a message."""
    found = [client.receiver(address, 10, name=f"{address}-{number}") for number in range(2)]
    sender = client.sender(address)
    sent = sender.send("x")
    taken = 0

    def settled() -> bool:
        nonlocal taken
        for receiver in found:
            if receiver.arrived.qsize():
                receiver.next().accept()
                taken += 1
        return sent.settled.is_set()

    wait_until(settled, what=f"settlement on {address}")
    for link in (*found, sender):
        link.close()
    return taken


@pytest.mark.parametrize(("attribute", "value", "matching", "other"), PATTERNS, ids=[row[1] for row in PATTERNS])
def test_table(
    start_router: StartRouter, attribute: str, value: str, matching: list[str], other: list[str]
) -> None:
    """An address that matches is a multicast here; any other is balanced."""
    router = start_router(extra=section("address", **{attribute: value}, distribution="multicast"))
    with Client(router.url) as client:
        assert {address: copies(client, address) for address in matching} == dict.fromkeys(matching, 2)
        assert {address: copies(client, address) for address in other} == dict.fromkeys(other, 1)


def test_best_match_wins(start_router: StartRouter) -> None:
    rules = {"#": "balanced", "a/#": "multicast", "a/*/c": "balanced", "a/b/c": "multicast", "a/b/*": "closest"}
    extra = "".join(section("address", pattern=pattern, distribution=kind) for pattern, kind in rules.items())
    with Client(start_router(extra=extra).url) as client:
        wanted = {"x": 1, "a": 2, "a/b": 2, "a/x/c": 1, "a/b/c": 2, "a/b/x": 1, "a/x/y": 2}
        assert {address: copies(client, address) for address in wanted} == wanted


def test_default_distribution(start_router: StartRouter) -> None:
    router = start_router(extra=section("address", prefix="known", distribution="balanced"))
    router.stop()
    text = router.config_path.read_text(encoding="utf-8")
    text = text.replace("mode:", "defaultDistribution: unavailable\n    mode:")
    router.config_path.write_text(text, encoding="utf-8")
    router.start()
    with Client(router.url) as client:
        assert copies(client, "known.one") == 1
        for link in (client.sender("unknown"), client.receiver("unknown")):
            assert (link.wait_detached() or "").startswith("amqp:not-found")


# ---- links that cannot be
def test_attach_under_the_same_name_steals_the_link(router1: RouterProcess, stack: ExitStack) -> None:
    address = fresh()
    client = stack.enter_context(Client(router1.url))
    first = client.receiver(address, 10, name="one name")
    second = client.receiver(address, 10, name="one name")
    assert (first.wait_detached() or "").startswith("amqp:link:stolen")
    sent = client.sender(address).send("x")
    second.next().accept()
    assert sent.outcome() == "accepted"


def test_the_same_name_in_the_other_direction_or_connection_is_another_link(
    router1: RouterProcess, stack: ExitStack
) -> None:
    address = fresh()
    client, other = stack.enter_context(Client(router1.url)), stack.enter_context(Client(router1.url))
    receivers = [client.receiver(address, 10, name="name"), other.receiver(address, 10, name="name")]
    sender = client.sender(address, name="name")
    sent = sender.send_all(["x", "y"])
    for receiver in receivers:
        receiver.next().accept()
    assert [s.outcome() for s in sent] == ["accepted"] * 2


def test_refused_links_say_why_and_leave_the_connection_alone(router1: RouterProcess, stack: ExitStack) -> None:
    client = stack.enter_context(Client(router1.url))
    assert (client.receiver(None).wait_detached() or "").startswith("amqp:precondition-failed")
    assert (client.receiver("_topo/0/OTHER/x").wait_detached() or "").startswith("amqp:")
    coordinator = client.call(lambda: _coordinator(client))
    wait_until(lambda: client.call(lambda: coordinator.remote_condition), what="refusal of transactions")
    refusal = client.call(lambda: coordinator.remote_condition)
    assert refusal is not None
    assert refusal.name == "amqp:precondition-failed"
    address = fresh()
    receiver = client.receiver(address, 1)
    client.sender(address).send("still here")
    assert receiver.next().body == "still here"


def test_detach_with_an_error_of_the_client(line2: Mesh, stack: ExitStack) -> None:
    """What the client says when it detaches harms nobody; its consumer is gone, the connection is not."""
    address = fresh()
    client = stack.enter_context(Client(line2["B"].url))
    receiver = client.receiver(address, 10)
    sender = stack.enter_context(Client(line2["A"].url)).sender(address)
    sender.wait_credit()

    def detach() -> None:
        receiver.link.condition = proton.Condition("test:tired", "no more today")
        receiver.link.close()

    client.call(detach)
    receiver.wait_detached()
    assert receiver.error is None
    wait_until(lambda: sender.credit == 0, what="withdrawal of credit")
    again = client.receiver(address, 10, name="again")
    sender.send("x")
    assert again.next().body == "x"


def _coordinator(client: Client) -> proton.Sender:
    link = client._container.create_sender(client.connection, None, name="tx")
    link.target.type = proton.Terminus.COORDINATOR
    return link
