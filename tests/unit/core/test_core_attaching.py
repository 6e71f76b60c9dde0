"""Requests in opens and attaches, and refusals."""

from __future__ import annotations

import random
from typing import Any

import pytest

from waymesh_amqp.errors import NOT_IMPLEMENTED, PRECONDITION_FAILED, UNAUTHORIZED_ACCESS
from waymesh_amqp.performatives import Attach, Open, Terminus
from waymesh_amqp.types import Symbol
from waymesh_router.core import attaching
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.link_kinds import CONTROL, DATA, ENDPOINT, NO_MANAGEMENT, READ_MANAGEMENT

pytestmark = pytest.mark.engine_independent


def attach(receiver: bool, source: Terminus | None = None, target: Terminus | None = None) -> Attach:
    return Attach(name="l", handle=0, role=receiver, source=source, target=target)


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [(None, 5), (3, 5), (5, 5), (9, 9), (0x7FFFFFFF, 0x7FFFFFFF), (0x80000000, 5), ("9", 5)],
)
def test_the_higher_cost_of_both_ends_counts(asked: Any, agreed: int) -> None:
    properties = None if asked is None else {Symbol(attaching.COST_PROPERTY): asked}
    assert attaching.agreed_cost(5, Open(container_id="B", properties=properties)) == agreed


@pytest.mark.parametrize(
    ("given", "waypoint", "attribute", "phase"),
    [
        (None, False, "egressPhase", "0"),
        (None, True, "ingressPhase", "0"),
        (None, True, "egressPhase", "1"),
        (3, True, "egressPhase", "3"),
        (0, True, "egressPhase", "0"),
    ],
)
def test_consumers_of_a_waypoint_read_phase_1(given: int | None, waypoint: bool, attribute: str, phase: str) -> None:
    assert attaching.phase_of({attribute: given, "waypoint": waypoint}, attribute) == phase


WAYPOINT = {"waypoint": True, "ingressPhase": None, "egressPhase": None}
CHAIN = {"waypoint": False, "ingressPhase": None, "egressPhase": 3}
STORED = {"waypoint": False, "ingressPhase": None, "egressPhase": None, "enableFallback": True}


@pytest.mark.parametrize(
    ("capability", "config", "receiver", "sender"),
    [
        ("queue", None, "0", "0"),
        ("queue", WAYPOINT, "1", "0"),
        ("qd.waypoint", WAYPOINT, "0", "1"),
        ("qd.waypoint_1", WAYPOINT, "0", "1"),
        ("qd.waypoint_3", CHAIN, "2", "3"),
        ("qd.waypoint_9", CHAIN, "8", "9"),
        ("qd.waypoint_0", CHAIN, "3", "0"),
        ("qd.fallback", STORED, "F", "0"),
    ],
)
def test_capabilities_choose_the_phase_of_a_link(
    capability: str, config: dict[str, Any] | None, receiver: str, sender: str
) -> None:
    terminus = Terminus("source", address="q", capabilities=[Symbol(capability)])
    phases = [attaching.place_of(terminus, incoming).phase("q", config) for incoming in (True, False)]
    assert phases == [receiver, sender]


@pytest.mark.parametrize(
    "terminus",
    [
        Terminus("source", address="q", capabilities=[Symbol("qd.fallback"), Symbol("qd.waypoint")]),
        Terminus("source", address="q", capabilities=[Symbol("qd.waypoint_1"), Symbol("qd.waypoint_2")]),
        Terminus("source", dynamic=True, capabilities=[Symbol("qd.waypoint")]),
        Terminus("target", capabilities=[Symbol("qd.fallback")]),
    ],
)
def test_places_that_no_link_can_have(terminus: Terminus) -> None:
    with pytest.raises(Refusal) as refused:
        attaching.place_of(terminus, True)
    assert refused.value.condition == PRECONDITION_FAILED


@pytest.mark.parametrize(
    ("capability", "kind"),
    [(attaching.ROUTER_CAPABILITY, CONTROL), (attaching.DATA_CAPABILITY, DATA), ("queue", ENDPOINT), (None, ENDPOINT)],
)
def test_capabilities_of_the_termini_say_the_kind_of_link(capability: str | None, kind: int) -> None:
    terminus = Terminus(kind="target", capabilities=None if capability is None else [Symbol(capability)])
    assert attaching.link_kind(attach(False, None, terminus)) == kind


@pytest.mark.parametrize("kind", [CONTROL, DATA])
def test_our_own_attaches_are_of_the_kind_that_they_say(kind: int) -> None:
    assert attaching.link_kind(attaching.mesh_attach("l", kind, True)) == kind


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        (None, PRECONDITION_FAILED),
        (Terminus(kind="source"), PRECONDITION_FAILED),
        (Terminus(kind="source", address=""), PRECONDITION_FAILED),
        (Terminus(kind="source", address="/"), PRECONDITION_FAILED),
        (Terminus(kind="source", address=Symbol("q")), PRECONDITION_FAILED),
        (Terminus(kind="other"), NOT_IMPLEMENTED),
    ],
)
def test_sources_that_are_refused(source: Terminus | None, condition: str) -> None:
    with pytest.raises(Refusal) as refused:
        attaching.checked_source(source)
    assert refused.value.condition == condition


@pytest.mark.parametrize("source", [Terminus(kind="source", address="q"), Terminus(kind="source", dynamic=True)])
def test_sources_that_are_taken(source: Terminus) -> None:
    assert attaching.checked_source(source) is source


@pytest.mark.parametrize(
    ("target", "condition"),
    [
        (None, PRECONDITION_FAILED),
        (Terminus(kind="target", address=Symbol("q")), PRECONDITION_FAILED),
        (Terminus(kind="coordinator"), PRECONDITION_FAILED),
    ],
)
def test_targets_that_are_refused(target: Terminus | None, condition: str) -> None:
    with pytest.raises(Refusal) as refused:
        attaching.checked_target(target)
    assert refused.value.condition == condition


@pytest.mark.parametrize("address", [None, "", "q"])
def test_a_sender_may_have_no_address(address: str | None) -> None:
    assert attaching.checked_target(Terminus(kind="target", address=address)).address == address


@pytest.mark.parametrize(
    ("link", "manages"),
    [
        (attach(False, None, Terminus(kind="target", address="$management")), True),
        (attach(False, None, Terminus(kind="target", address="q")), False),
        (attach(False, None, Terminus(kind="target")), False),
        (attach(True, Terminus(kind="source", dynamic=True)), True),
        (attach(True, Terminus(kind="source", address="q")), False),
    ],
)
def test_links_for_management(link: Attach, manages: bool) -> None:
    assert attaching.for_management(link) == manages


TO_MANAGEMENT = attach(False, None, Terminus(kind="target", address="_topo/0/B/$management"))
FROM_MANAGEMENT = attach(True, Terminus(kind="source", address="$management"))


@pytest.mark.parametrize(
    ("right", "refused"),
    [(NO_MANAGEMENT, (TO_MANAGEMENT, FROM_MANAGEMENT)), (READ_MANAGEMENT, (FROM_MANAGEMENT,))],
)
def test_management_is_refused_to_a_peer_that_may_not_manage(right: int, refused: tuple[Attach, ...]) -> None:
    attaching.check_management(attach(False, None, Terminus(kind="target", address="q")), right)
    for link in (TO_MANAGEMENT, FROM_MANAGEMENT):
        if link in refused:
            with pytest.raises(Refusal) as refusal:
                attaching.check_management(link, right)
            assert refusal.value.condition == UNAUTHORIZED_ACCESS
        else:
            attaching.check_management(link, right)


def test_temporary_addresses_lead_to_this_router_and_differ() -> None:
    rng = random.Random(1)
    addresses = {attaching.temporary_address("A", rng, False) for _ in range(100)}
    assert len(addresses) == 100
    assert all(address.startswith("_topo/0/A/temp.") for address in addresses)


def with_concurrency(value: Any) -> Attach:
    """The attach of a receiver that says how many deliveries it works on at a time."""
    properties = {Symbol("concurrency"): value}
    return Attach(name="l", handle=0, role=True, source=Terminus("source", address="q"), properties=properties)


@pytest.mark.parametrize("value", [1, 8, 65535])
def test_a_receiver_says_how_many_deliveries_it_works_on_at_a_time(value: int) -> None:
    assert attaching.concurrency(with_concurrency(value)) == value


@pytest.mark.parametrize("value", [0, -1, 65536, True, "8", 1.5])
def test_what_is_no_such_number_is_refused(value: Any) -> None:
    with pytest.raises(Refusal, match="the link property concurrency must be a number from 1 to 65535"):
        attaching.concurrency(with_concurrency(value))


def test_without_the_property_it_is_unknown() -> None:
    assert attaching.concurrency(attach(True)) == 0
