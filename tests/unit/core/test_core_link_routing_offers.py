"""Capabilities of containers, as offered to clients."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_amqp.performatives import Open
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_routing.offers import (
    ContainerCapabilities,
    capabilities_of,
    common_capabilities,
    pass_on,
    read_offer,
)

pytestmark = pytest.mark.engine_independent


def offer(*capabilities: str, **naming: str) -> ContainerCapabilities:
    return ContainerCapabilities(capabilities, {name.replace("_", "-"): value for name, value in naming.items()})


def test_an_open_offers_capabilities_and_the_properties_that_name_nodes() -> None:
    properties = {Symbol("queue-prefix"): "queue://", Symbol("product"): "broker", Symbol("topic-prefix"): 7}
    opened = Open(container_id="B", offered_capabilities=[Symbol("SHARED-SUBS")], properties=properties)
    assert capabilities_of(opened) == offer("SHARED-SUBS", queue_prefix="queue://")
    assert capabilities_of(Open(container_id="B")) == offer()


@pytest.mark.parametrize(
    ("told", "read"),
    [
        (offer("A", "B", queue_prefix="q:").as_map(), offer("A", "B", queue_prefix="q:")),
        ({}, offer()),
        ({"capabilities": "A", "naming": ["queue-prefix"]}, offer()),
        ({"capabilities": ["A", 7, None], "naming": {"queue-prefix": 7, "other": "x"}}, offer("A")),
    ],
)
def test_what_another_router_tells_is_read_as_far_as_it_makes_sense(told: dict[str, Any], read: Any) -> None:
    assert read_offer(told) == read


@pytest.mark.parametrize(
    ("offers", "common"),
    [
        ([], None),
        ([offer("A", "B", queue_prefix="q:")], offer("A", "B", queue_prefix="q:")),
        ([offer("A", "B"), offer("B", "C")], offer("B")),
        ([offer(queue_prefix="q", topic_prefix="t"), offer(queue_prefix="q")], offer(queue_prefix="q")),
        ([offer(queue_prefix="q"), offer(queue_prefix="x")], offer()),
        ([offer("A"), offer()], offer()),
    ],
)
def test_of_several_containers_only_what_all_offer_counts(offers: list[Any], common: Any) -> None:
    assert common_capabilities(offers) == common


def test_a_client_is_told_each_capability_once_and_properties_of_the_listener_stay() -> None:
    settings = ConnectionSettings("A", properties={Symbol("queue-prefix"): "ours:"})
    settings.offered_capabilities.append(Symbol("ANONYMOUS-RELAY"))
    pass_on(settings, ["LISTENER"], offer("ANONYMOUS-RELAY", "SHARED-SUBS", queue_prefix="q:", topic_prefix="t:"))
    assert settings.offered_capabilities == ["ANONYMOUS-RELAY", "LISTENER", "SHARED-SUBS"]
    assert settings.properties == {"queue-prefix": "ours:", "topic-prefix": "t:"}
    pass_on(settings, ["LISTENER"], None)
    assert settings.offered_capabilities == ["ANONYMOUS-RELAY", "LISTENER", "SHARED-SUBS"]
