"""The path of messages of message groups: to the consumer of their slot, here or at another router."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.demand import KEY, Told, later, local, record, remote, turn
from tests.kit.frames import Seen
from tests.kit.groups import ALL_SLOTS, annotated, configure, got, message, producer, tell_groups, unconfigure
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.test_core_exchanges import binding, entity
from waymesh_amqp.message import decode_message
from waymesh_amqp.performatives import Detach, Disposition, Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.forwarding.groups import slot_of
from waymesh_router.core.link_kinds import BALANCED


@pytest.fixture
def hub() -> Hub:
    hub = core_hub()
    configure(hub)
    return hub


@pytest.fixture
def told(hub: Hub) -> Told:
    return record(hub)


def feed(peer: Peer, data: bytes) -> None:
    """Send frames, without a look at what comes back."""
    peer.end.feed(data)
    peer.hub.turn()


class Client:
    """A producer that numbers what it sends."""

    def __init__(self, hub: Hub) -> None:
        self.peer = producer(hub)
        self.sent = 0

    def send(self, *groups: str | None, settled: bool = False) -> None:
        for group in groups:
            feed(self.peer, frames.transfer(self.sent, message(group, self.sent), settled=settled))
            self.sent += 1

    def outcomes(self) -> list[tuple[int, str]]:
        """Number and outcome of the deliveries that were settled since the last look."""
        seen = [f for f in self.peer.take() if isinstance(f, Disposition)]
        return [
            (number, str(state.descriptor))
            for d in seen
            for state in frames.told([d])
            for number in range(d.first, (d.last or d.first) + 1)
        ]


def two_consumers(hub: Hub, credit: int = 10) -> dict[str, Peer]:
    """Consumers, and the one of each of groups a and b, which are different ones."""
    peers = [local(hub, credit) for _ in range(2)]
    client = Client(hub)
    client.send("a", "b")
    first = [got(peer) for peer in peers]
    assert sorted(first) == [["a:0"], ["b:1"]]
    return {"a": peers[first.index(["a:0"])], "b": peers[first.index(["b:1"])]}


def test_all_messages_of_a_group_go_to_one_consumer_in_order(hub: Hub) -> None:
    peers = two_consumers(hub)
    client = Client(hub)
    client.send("a", "a", "b", "a", "b")
    assert got(peers["a"]) == ["a:0", "a:1", "a:3"]
    assert got(peers["b"]) == ["b:2", "b:4"]


def test_messages_without_a_group_go_to_whom_is_free(hub: Hub) -> None:
    peers = two_consumers(hub)
    client = Client(hub)
    client.send(None, None, "a", None)
    assert sorted([len(got(peer)) for peer in peers.values()]) == [2, 2]


def test_a_group_waits_for_its_consumer_and_no_other_group_for_it(hub: Hub) -> None:
    peers = two_consumers(hub, credit=2)
    client = Client(hub)
    client.send("a", "a", "a", "b", None)
    assert got(peers["a"]) == ["a:0"]
    assert got(peers["b"]) == ["b:3"]
    feed(peers["b"], frames.credit(10, delivery_count=2))
    assert got(peers["b"]) == ["None:4"], "what has no group does not wait for the other one"
    feed(peers["a"], frames.credit(10, delivery_count=2))
    assert got(peers["a"]) == ["a:1", "a:2"]


def test_what_waits_goes_to_the_next_consumer_in_order(hub: Hub) -> None:
    peers = two_consumers(hub, credit=2)
    client = Client(hub)
    client.send("a", "a", "a")
    feed(peers["b"], frames.credit(10, delivery_count=1))
    peers["a"].kill()
    assert got(peers["b"]) == ["a:1", "a:2"]
    assert [number for number, _ in client.outcomes()] == [0], "it was at the consumer: modified"
    client.send("a", "b")
    assert got(peers["b"]) == ["a:3", "b:4"]


def test_what_was_aborted_while_it_waited_does_not_go_to_the_next_consumer(hub: Hub) -> None:
    peers = two_consumers(hub, credit=1)
    client, other = Client(hub), Client(hub)
    other.send("a")
    feed(client.peer, frames.transfer(0, message("a", 0)[:-1], more=True))
    other.send("a")
    feed(client.peer, frames.transfer(None, b"", aborted=True))
    feed(peers["b"], frames.credit(10, delivery_count=1))
    peers["a"].kill()
    assert got(peers["b"]) == ["a:0", "a:1"]
    other.send("b")
    assert got(peers["b"]) == ["b:2"]


def test_a_new_consumer_takes_no_group(hub: Hub) -> None:
    peers = two_consumers(hub)
    third = local(hub, 100)
    client = Client(hub)
    client.send("a", "b", "c", "a", "b", "c")
    assert got(third) == ["c:2", "c:5"]
    assert got(peers["a"]) == ["a:0", "a:3"]


def test_messages_that_are_cut_within_their_properties(hub: Hub) -> None:
    peers = two_consumers(hub)
    client = Client(hub)
    whole = message("a", 7)
    at = whole.index(b"a:7") - 6
    for split in (1, 5, at):
        number = client.sent
        client.peer.send(frames.transfer(number, whole[:split], more=True))
        client.peer.send(frames.transfer(None, whole[split:]))
        client.sent += 1
    seen = [f for f in peers["a"].frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    assert b"".join(f.payload for f in seen) == whole * 3
    assert got(peers["b"]) == []


def test_pre_settled_messages_and_a_consumer_that_is_too_slow(hub: Hub) -> None:
    peers = two_consumers(hub, credit=3)
    client = Client(hub)
    client.send("a", "a", "a", "b", settled=True)
    assert got(peers["a"]) == ["a:0", "a:1"]
    assert got(peers["b"]) == ["b:3"]
    feed(peers["a"], frames.credit(10, delivery_count=3))
    assert got(peers["a"]) == ["a:2"]


def test_too_large_for_its_consumer(hub: Hub) -> None:
    core_of(hub).address_table.get(KEY)
    small = hub.peer().open().begin()
    small.send(frames.attach_receiver(max_message_size=20), frames.credit(10))
    client = Client(hub)
    client.send("group-with-a-long-name")
    assert got(small) == []
    assert client.outcomes() == [(0, "37")]


def test_what_waits_is_handed_back_to_a_sender_that_retires(hub: Hub) -> None:
    peers = two_consumers(hub, credit=1)
    client, other = Client(hub), Client(hub)
    client.send("a", "b")
    other.send("a")
    client.send("a")
    core = core_of(hub)
    core.endpoint_links.retire(client.peer.session().links[0])
    hub.turn()
    assert sorted(client.outcomes()) == [(0, "38"), (1, "38"), (2, "38")]
    feed(peers["a"], frames.credit(10, delivery_count=1))
    assert got(peers["a"]) == ["a:0"], "that of the other one"


def test_copies_of_an_exchange_have_their_groups(hub: Hub) -> None:
    peers = two_consumers(hub)
    exchanges = core_of(hub).exchanges
    exchanges.add(entity())
    exchanges.bind(binding(key="#", hop="q"))
    sender = producer(hub, "news")
    for number, group in enumerate(["a", "b", "a", None, None]):
        feed(sender, frames.transfer(number, message(group, number)))
    found = {group: [one for one in got(peer) if not one.startswith("None")] for group, peer in peers.items()}
    assert found == {"a": ["a:0", "a:2"], "b": ["b:1"]}


# ---- other routers
def marked(peer: Peer) -> list[tuple[str, str]]:
    """Bodies and overrides of the address of what another router was sent."""
    seen = [f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    messages = [decode_message(f.payload) for f in seen]
    return [(str(m.body), str((m.message_annotations or {}).get("x-opt-qd.to"))) for m in messages]


def test_the_router_that_has_the_slot_gets_it_and_nobody_on_the_way_chooses(hub: Hub, told: Told) -> None:
    peers = {name: remote(hub, name) for name in "BC"}
    slot = 1 << slot_of(b"a")
    tell_groups(hub, "B", 1, slot)
    tell_groups(hub, "C", 1, ALL_SLOTS & ~slot)
    client = Client(hub)
    client.send("a", "b", "a")
    assert marked(peers["B"]) == [("a:0", "_topo/0/B/q"), ("a:2", "_topo/0/B/q")]
    assert marked(peers["C"]) == [("b:1", "_topo/0/C/q")]
    assert core_of(hub).addresses[KEY].targets["B"].outstanding == 0, "no window counts them"


def test_it_waits_until_it_is_known_who_has_it(hub: Hub, told: Told) -> None:
    peers = {name: remote(hub, name) for name in "BC"}
    slot = 1 << slot_of(b"a")
    tell_groups(hub, "B", 1, ALL_SLOTS & ~slot)
    client = Client(hub)
    client.send("a", "a", "b", "a", None)
    assert [len(marked(peer)) for peer in peers.values()] in ([2, 0], [1, 1]), "b and what has no group"
    tell_groups(hub, "C", 1, slot)
    later(hub, 0.1)
    assert [body for body, _ in marked(peers["C"])] == ["a:0", "a:1", "a:3"]


def test_without_a_consumer_it_is_released(hub: Hub, told: Told) -> None:
    here = local(hub, 1)
    client = Client(hub)
    client.send("a", "a", "b")
    here.kill()
    turn(hub)
    assert sorted(client.outcomes()) == [(0, "39"), (1, "38"), (2, "38")]


def arrives(peer: Peer, number: int, group: str, ingress: str, trace: list[str], meant: bool = True) -> None:
    """Another router sends a message on."""
    feed(peer, frames.transfer(number, annotated(group, number, ingress, trace, "R" if meant else ""), handle=3))


def test_what_another_router_sends_for_a_slot_that_is_here(hub: Hub, told: Told) -> None:
    sender = remote(hub, "B")
    core_of(hub).remote_routers.remove_consumers("B", KEY)
    peers = two_consumers(hub)
    arrives(sender, 0, "a", "B", ["B"])
    arrives(sender, 1, "b", "B", ["B"], meant=False)
    arrives(sender, 2, "a", "B", ["B"], meant=False)
    assert (got(peers["a"]), got(peers["b"])) == (["a:0", "a:2"], ["b:1"])


def test_what_comes_for_a_slot_that_another_router_has_goes_on_to_it(hub: Hub, told: Told) -> None:
    """If it came from there, only when that one says that it has it."""
    peers = {name: remote(hub, name) for name in "BC"}
    for node in core_of(hub).nodes.values():
        node.valid_origins = frozenset({"B"})
    local(hub, 10)
    tell_groups(hub, "C", 1, ALL_SLOTS)
    tell_groups(hub, "B", 1, 0)
    arrives(peers["B"], 0, "a", "B", ["B"])
    assert marked(peers["C"]) == [("a:0", "_topo/0/C/q")]
    slot = 1 << slot_of(b"a")
    tell_groups(hub, "C", 1, ALL_SLOTS & ~slot, {"B": slot})
    tell_groups(hub, "B", 1, 0)
    arrives(peers["C"], 0, "a", "B", ["B", "C"])
    later(hub, 0.1)
    assert marked(peers["B"]) == marked(peers["C"]) == []
    tell_groups(hub, "B", 1, slot)
    later(hub, 0.1)
    assert marked(peers["B"]) == [("a:0", "_topo/0/B/q")]


def test_where_the_path_leads_back_it_enters_the_mesh_once_more(hub: Hub, told: Told) -> None:
    peer = remote(hub, "B")
    core = core_of(hub)
    core.remote_routers.node_up("C")
    core.nodes["C"].demand = True
    core.nodes["C"].next_hop = core.nodes["B"]
    core.remote_routers.remove_consumers("B", KEY)
    core.remote_routers.add_consumers("C", KEY, BALANCED)
    local(hub, 10)
    tell_groups(hub, "C", 1, ALL_SLOTS)
    arrives(peer, 0, "a", "A", ["A", "B"])
    assert marked(peer) == [("a:0", "_topo/0/C/q")]
    arrives(peer, 1, "a", "C", ["C", "B"])
    assert marked(peer) == [("a:1", "_topo/0/C/q")], "it says that it has the slot"


# ---- edge routers and the setting
def test_the_setting_can_go_while_something_waits(hub: Hub) -> None:
    peers = two_consumers(hub, credit=1)
    client = Client(hub)
    client.send("a", "a", None, "b")
    unconfigure(hub)
    client.send("a")
    for peer in peers.values():
        feed(peer, frames.credit(10, delivery_count=1))
    assert sorted(got(peers["a"]) + got(peers["b"])) == ["None:2", "a:0", "a:1", "a:4", "b:3"]
    configure(hub)
    client.send("a", "a", "a")
    assert sorted([len(got(peer)) for peer in peers.values()]) == [0, 3]


def test_an_exclusive_consumer_is_refused(hub: Hub) -> None:
    peer = hub.peer().open().begin()
    replies = peer.send(frames.attach_receiver(properties={Symbol("exclusive"): True}))
    (detach,) = [one for one in replies if isinstance(one, Detach)]
    assert detach.error is not None
    assert detach.error.condition == "amqp:precondition-failed"
    assert "message groups" in (detach.error.description or "")


def test_other_addresses_do_not_read_groups(hub: Hub) -> None:
    """Also those that the entity matches, but whose consumers other routers do not tell."""
    table = core_of(hub).address_table
    for key in ("M0other", "M1q", "MFq", "Lq"):
        assert table.get(key).groups is None
    assert table.get("M0q.x").groups is not None
