"""The exchanges of a router: which can be created, what the mesh is told, and what they leave behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, core_of
from tests.unit.core.edge_peer import announced, announcing_hub
from waymesh_amqp.outcomes import RELEASED
from waymesh_amqp.performatives import Disposition
from waymesh_router.core.exchanges.exchanges import Exchanges


@pytest.fixture
def hub() -> Hub:
    return announcing_hub()


@pytest.fixture
def exchanges(hub: Hub) -> Exchanges:
    return core_of(hub).exchanges


def entity(name: str = "news", address: str = "news", **over: Any) -> dict[str, Any]:
    attrs = {"name": name, "address": address, "phase": 0, "matchMethod": "amqp"}
    return {**attrs, "alternateAddress": None, "alternatePhase": 0, **over}


def binding(identity: str = "1", key: str = "a", hop: str = "x", exchange: str = "news") -> dict[str, Any]:
    named = {"identity": identity, "exchangeName": exchange, "bindingKey": key}
    return {**named, "nextHopAddress": hop, "nextHopPhase": 0}


def test_the_mesh_hears_of_an_exchange_and_of_its_end(hub: Hub, exchanges: Exchanges) -> None:
    exchanges.add(entity())
    assert core_of(hub).addresses["M0news"].exchange
    exchanges.remove("news")
    assert [text.split(":")[0] for text in announced(hub)] == ["+M0news", "-M0news"]
    assert "M0news" not in core_of(hub).addresses
    assert exchanges.by_name == {}


def test_a_consumer_at_its_address_is_announced_already(hub: Hub, exchanges: Exchanges) -> None:
    hub.peer().open().begin().send(frames.attach_receiver(address="news"))
    before = announced(hub).copy()
    exchanges.add(entity())
    exchanges.remove("news")
    assert announced(hub) == before


@pytest.mark.parametrize("attribute", ["address", "alternateAddress"])
@pytest.mark.parametrize("text", ["amqp:/", "_topo/0/A/x", "_local/x", "$management"])
def test_only_addresses_of_clients(hub: Hub, exchanges: Exchanges, attribute: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{attribute}: must be an address of clients"):
        exchanges.add(entity(**{attribute: text}))
    assert exchanges.by_name == {}
    assert announced(hub) == []


def test_an_address_has_one_exchange(exchanges: Exchanges) -> None:
    exchanges.add(entity())
    with pytest.raises(KeyError, match="exchange news has this address"):
        exchanges.add(entity("other"))
    exchanges.add(entity("other", phase=1))
    assert list(exchanges.by_name) == ["news", "other"]


def test_an_exchange_does_not_lead_to_itself_or_another_one(exchanges: Exchanges) -> None:
    with pytest.raises(ValueError, match="exchange news sends to this address"):
        exchanges.add(entity(alternateAddress="news"))
    exchanges.add(entity())
    with pytest.raises(ValueError, match="news is the address of exchange news"):
        exchanges.bind(binding(hop="news"))
    with pytest.raises(ValueError, match="news is the address of exchange news"):
        exchanges.add(entity("other", "other", alternateAddress="news"))
    exchanges.bind(binding(hop="later"))
    with pytest.raises(ValueError, match="exchange news sends to this address"):
        exchanges.add(entity("later", "later"))
    assert list(exchanges.by_name) == ["news"]


def test_bindings_of_an_exchange_differ_in_key_or_next_hop(exchanges: Exchanges) -> None:
    exchanges.add(entity())
    exchanges.bind(binding("1"))
    exchanges.bind(binding("2", key="b"))
    exchanges.bind(binding("3", hop="y"))
    with pytest.raises(KeyError, match="a binding of this key to this address"):
        exchanges.bind(binding("4"))
    assert list(exchanges.by_name["news"].bindings) == ["1", "2", "3"]


def test_a_binding_needs_its_exchange(exchanges: Exchanges) -> None:
    with pytest.raises(ValueError, match="there is no exchange news"):
        exchanges.bind(binding())


def test_a_binding_that_is_refused_changes_nothing(exchanges: Exchanges) -> None:
    exchanges.add(entity(matchMethod="mqtt"))
    with pytest.raises(ValueError, match="# must be the last token"):
        exchanges.bind(binding(key="#/a"))
    assert exchanges.by_name["news"].bindings == {}


def test_matches_are_counted_until_the_binding_is_deleted(hub: Hub, exchanges: Exchanges) -> None:
    exchanges.add(entity())
    exchanges.bind(binding(key="#"))
    exchanges.bind(binding("2", key="b"))
    sender = hub.peer().open().begin()
    sender.send(frames.attach_sender(address="news"))
    subject = b"\x00\x53\x73\xc0\x07\x04\x40\x40\x40\xa1\x01b"
    sender.send(frames.transfer(0, subject + frames.message()))
    assert [exchanges.matched(binding(identity)) for identity in "12"] == [1, 1]
    exchanges.unbind(binding("1", key="#"))
    sender.send(frames.transfer(1, subject + frames.message()))
    assert exchanges.matched(binding("2")) == 2
    assert list(exchanges.by_name["news"].bindings) == ["2"]


def test_a_message_that_is_not_complete_when_its_exchange_is_deleted_is_released(
    hub: Hub, exchanges: Exchanges
) -> None:
    exchanges.add(entity())
    sender = hub.peer().open().begin()
    sender.send(frames.attach_sender(address="news"), frames.transfer(0, more=True))
    exchanges.remove("news")
    answers = sender.send(frames.transfer(None, b""))
    assert [answer.state for answer in answers if isinstance(answer, Disposition)] == [RELEASED]
