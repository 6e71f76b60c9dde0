"""`stripAnnotations` and annotations that clients set, as in qdrouterd. Items of docs/compatibility-items.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.full.containers import Party, PartyLink
from tests.simulation.full.network import Network
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.types import Symbol

MODES = ("in", "out", "both", "no")
LISTENERS = "".join(
    f"listener {{\nname: {mode}\nhost: 0.0.0.0\nport: {port}\nstripAnnotations: {mode}\nsaslMechanisms: ANONYMOUS\n}}\n"
    for port, mode in enumerate(MODES, 30000)
)
INGRESS, TRACE = "x-opt-qd.ingress", "x-opt-qd.trace"
OWN = {"x-opt-mine": "kept"}


class Pair:
    """A router with a listener for each mode, and clients of them."""

    def __init__(self) -> None:
        self.network = Network()
        self.router = self.network.router("A", LISTENERS)
        self.network.start()
        self.network.run(0.1)

    def link(self, mode: str, sends: bool) -> tuple[Party, PartyLink]:
        party = Party(self.network, f"{mode}-{sends}")
        conn = party.dial(self.router, 30000 + MODES.index(mode))
        self.network.run(0.1)
        session = conn.open_session()
        link = party.sender(session, "work") if sends else party.receiver(session, "work", 10)
        self.network.run(0.1)
        return party, link

    def passed(self, sender: str, receiver: str, annotations: dict[str, Any]) -> dict[str, Any]:
        """The annotations that arrive of a message with these."""
        _, consumer = self.link(receiver, False)
        party, producer = self.link(sender, True)
        said = {Symbol(key): value for key, value in annotations.items()}
        party.send(producer, encode_message(Message(message_annotations=said, body="x")))
        self.network.run(0.1)
        (got,) = consumer.got
        return dict(decode_message(got.data).message_annotations or {})


@pytest.mark.parametrize("sender", MODES)
@pytest.mark.parametrize("receiver", MODES)
def test_compat_13_strip_annotations_in_both_directions(sender: str, receiver: str) -> None:
    """`in` strips what a client sent, `out` what a client gets; the client's other annotations always stay."""
    found = Pair().passed(sender, receiver, {**OWN, INGRESS: "0/X", TRACE: ["0/X"]})
    assert found.pop("x-opt-mine") == "kept"
    if receiver in ("out", "both"):
        assert found == {}
    elif sender in ("in", "both"):
        assert (found[INGRESS], found[TRACE]) == ("0/A", ["0/A"])
    else:
        assert (found[INGRESS], found[TRACE]) == ("0/X", ["0/X", "0/A"])


def test_compat_13_values_without_the_prefix_stay_as_they_came() -> None:
    found = Pair().passed("no", "no", {INGRESS: "here", TRACE: ["one", "0/two"]})
    assert found[INGRESS] == "here"
    assert found[TRACE] == ["one", "0/two", "0/A"]


def test_compat_13_a_trace_alone_gets_our_ingress_and_the_other_way_round() -> None:
    found = Pair().passed("no", "no", {TRACE: ["one"]})
    assert (found[INGRESS], found[TRACE]) == ("0/A", ["one", "0/A"])
    found = Pair().passed("no", "no", {INGRESS: "here"})
    assert (found[INGRESS], found[TRACE]) == ("here", ["0/A"])
