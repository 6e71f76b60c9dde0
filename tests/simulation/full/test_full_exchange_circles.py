"""Exchanges of several routers that lead to each other: a message does not go in circles."""

from __future__ import annotations

import pytest

from tests.simulation.full.containers import ACCEPTED
from tests.simulation.full.test_full_exchanges import EXCHANGE, World, subjects
from waymesh_amqp.message import Message, encode_message


def leading(name: str, *hops: str, alternate: str = "") -> str:
    """An exchange of this name and address, with a binding to each hop."""
    more = f"alternateAddress: {alternate}\n" if alternate else ""
    bindings = "".join(f"binding {{\nexchangeName: {name}\nnextHopAddress: {hop}\n}}\n" for hop in hops)
    return f"exchange {{\nname: {name}\naddress: {name}\n{more}}}\n{bindings}"


def mesh(*configured: str, more: str = "") -> World:
    """Routers A, B, … in a line with these configurations."""
    names = "ABCDEFGH"[: len(configured)]
    return World(names, at="", more=more, each=dict(zip(names, configured, strict=True)))


def counts(world: World, count: str) -> list[int]:
    rows = [row for router in world.routers.values() for row in router.router.agent.adapters[EXCHANGE].rows(0.0)]
    return [row[f"{count}Count"] for row in rows]


def warnings(world: World) -> list[str]:
    texts = [text for router in world.routers.values() for _, _, _, text in router.lines]
    return [text for text in texts if "has passed exchanges" in text]


def test_a_message_ends_where_the_circle_closes() -> None:
    world = mesh(leading("a", "b", "kept"), leading("b", "a"))
    kept = world.receiver("B", "kept", credit=100)
    sender = world.sender("A", "a")
    for number in range(3):
        world.send(sender, str(number))
    assert subjects(kept) == ["0", "1", "2"]
    assert sender.outcomes == [(True, ACCEPTED)] * 3
    assert counts(world, "received") == [6, 3]
    assert counts(world, "dropped") == [3, 0]


def test_the_mark_stays_on_messages_with_annotations_of_their_own() -> None:
    world = mesh(leading("a", "b"), leading("b", "a"))
    marked = Message(subject="x", message_annotations={"x-opt-mine": 1}, body="x")
    world.party.send(world.sender("A", "a"), encode_message(marked))
    world.network.run(0.3)
    assert (counts(world, "received"), counts(world, "dropped")) == ([2, 1], [1, 0])


def test_the_alternate_address_is_part_of_a_circle() -> None:
    world = mesh(leading("a", alternate="b"), leading("b", alternate="a"))
    world.send(world.sender("A", "a"), "x")
    assert (counts(world, "received"), counts(world, "dropped")) == ([2, 1], [1, 0])


def test_consumers_of_the_address_get_a_message_of_a_circle_once() -> None:
    world = mesh(leading("a", "b"), leading("b", "a"), more="address {\nprefix: a\ndistribution: multicast\n}\n")
    own = world.receiver("A", "a")
    world.send(world.sender("A", "a"), "x")
    assert subjects(own) == ["x"]


def test_copies_return_to_the_router_where_the_message_entered() -> None:
    world = mesh("", leading("b", "c"), leading("c", "back"))
    back = world.receiver("A", "back")
    world.send(world.sender("A", "b"), "x")
    assert subjects(back) == ["x"]
    assert counts(world, "dropped") == [0, 0]


@pytest.mark.parametrize(("routers", "arrives"), [(4, True), (5, False)])
def test_a_message_passes_at_most_four_exchanges(routers: int, arrives: bool) -> None:
    names = [f"x{number}" for number in range(routers)]
    hops = [*names[1:], "end"]
    world = mesh(*(leading(name, hop) for name, hop in zip(names, hops, strict=True)))
    end = world.receiver("A", "end")
    world.send(world.sender("A", "x0"), "x")
    assert subjects(end) == (["x"] if arrives else [])
    assert sum(counts(world, "dropped")) == (not arrives)


def test_one_warning_tells_of_a_circle() -> None:
    world = mesh(leading("a", "b"), leading("b", "a"))
    sender = world.sender("A", "a")
    for number in range(3):
        world.send(sender, str(number))
    (warning,) = warnings(world)
    assert "exchange a: dropped a message that has passed exchanges of A, B" in warning
