"""What an autolink asks of its container: filters, distribution mode, capabilities and properties of the link."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import Broker, PartyLink
from tests.simulation.full.test_full_autolinks import WAYPOINT, one_router, rows, states
from waymesh_amqp.performatives import Attach

TERMS = """autoLink {
address: queue.first
direction: in
connection: broker
selector: colour = 'red'
noLocal: yes
distributionMode: copy
capabilities: queue shared
linkProperties: {"priority": 7, "for": "audit"}
}
autoLink {
address: queue.first
direction: out
connection: broker
capabilities: queue
}
"""


def test_the_attach_asks_for_what_the_entity_says() -> None:
    """Spec: 3.5.3, 3.5.4; the filters: AMQP filters registered by Apache."""
    network, router, broker = one_router(WAYPOINT + TERMS)
    network.until(lambda: states(router) == ["active", "active"], 1.0)
    (incoming,) = broker.of("queue.first", is_sender=True)
    (outgoing,) = broker.of("queue.first", is_sender=False)
    asked: Any = incoming.attach
    filters = {str(name): (str(f.descriptor), f.value) for name, f in asked.source.filter.items()}
    assert filters == {
        "selector": ("apache.org:selector-filter:string", "colour = 'red'"),
        "no-local": ("apache.org:no-local-filter:list", []),
    }
    assert (asked.source.distribution_mode, asked.source.capabilities) == ("copy", ["queue", "shared"])
    assert asked.target.capabilities is None
    assert asked.properties == {"priority": 7, "for": "audit"}
    asked = outgoing.attach
    assert (asked.source.filter, asked.source.distribution_mode, asked.source.capabilities) == (None, None, None)
    assert (asked.target.capabilities, asked.properties) == (["queue"], None)


@pytest.mark.parametrize(
    ("lacking", "error"),
    [
        ({"filter": None}, "the container does not apply selector"),
        ({"distribution_mode": None}, "the container does not grant distributionMode copy (its answer: none)"),
        ({"distribution_mode": "move"}, "the container does not grant distributionMode copy (its answer: move)"),
    ],
)  # fmt: skip
def test_a_container_that_ignores_what_is_asked_gets_no_credit(
    lacking: dict[str, Any], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the selector the link would take messages that it must leave in the queue."""
    network, router, broker = one_router(WAYPOINT + TERMS)
    broker.queues["queue.first"] = deque([message()])
    answer = Broker.answer

    def ignore(self: Broker, party: PartyLink, attach: Attach) -> None:
        if attach.source is not None and attach.source.filter:
            attach.source = replace(attach.source, **lacking)
        answer(self, party, attach)

    monkeypatch.setattr(Broker, "answer", ignore)
    network.until(lambda: states(router) == ["failed", "active"], 1.0)
    assert [row["lastError"] for row in rows(router)] == [error, None]
    network.run(5.0)
    assert len(broker.queues["queue.first"]) == 1
    monkeypatch.undo()
    network.until(lambda: states(router) == ["active", "active"], 10.0)
