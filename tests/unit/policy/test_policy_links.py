"""Decisions on links: counts, settings of the group, addresses. And what an attach asks of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from waymesh_amqp.performatives import Attach, Terminus
from waymesh_amqp.types import Symbol
from waymesh_router.clients.link_requests import forms_of, link_request
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.decide import LIMIT_EXCEEDED, UNAUTHORIZED, Denied, Request
from waymesh_router.policy.enforcement import Client, Enforcement
from waymesh_router.policy.links import (
    ANONYMOUS,
    DYNAMIC,
    RECEIVER,
    SENDER,
    LinkDenied,
    LinkRequest,
    decide_link,
    link_rules,
)
from waymesh_router.policy.settings import Policy
from waymesh_router.policy.statistics import Denials
from waymesh_router.policy.vhosts import parse_policy

pytestmark = pytest.mark.engine_independent


def policy_of(**group: Any) -> Policy:
    vhost = {"hostname": "v", "allowUnknownUser": True, "groups": {"$default": {"remoteHosts": "*", **group}}}
    return parse_policy({"enableVhostPolicy": True}, [vhost], PatternTree[str], lambda _: [])


def decide(request: LinkRequest, senders: int = 0, receivers: int = 0, **group: Any) -> LinkDenied | None:
    policy = policy_of(**{"sources": "in", "targets": "out", **group})
    return decide_link(link_rules(policy, policy.vhosts["v"].groups["$default"], "u"), request, senders, receivers)


def verdict(request: LinkRequest, senders: int = 0, receivers: int = 0, **group: Any) -> tuple[str, str] | None:
    denied = decide(request, senders, receivers, **group)
    return None if denied is None else (denied.condition, denied.kind)


IN, OUT = LinkRequest(True, ("in",)), LinkRequest(False, ("out",))


def test_a_link_needs_its_address_in_the_list_of_its_direction() -> None:
    assert verdict(IN) is None
    assert verdict(OUT) is None
    assert verdict(LinkRequest(True, ("out",))) == (UNAUTHORIZED, RECEIVER)
    assert verdict(LinkRequest(False, ("in",))) == (UNAUTHORIZED, SENDER)
    assert verdict(IN, sources="") == (UNAUTHORIZED, RECEIVER)


def test_all_forms_of_an_address_must_be_allowed() -> None:
    assert verdict(LinkRequest(False, ("out", "in"))) == (UNAUTHORIZED, SENDER)
    assert verdict(LinkRequest(False, ("out", "in")), targets="in,out") is None


@pytest.mark.parametrize(("request_", "setting", "kind"), [(OUT, "maxSenders", SENDER), (IN, "maxReceivers", RECEIVER)])
def test_the_number_of_links_is_limited_for_each_direction(request_: LinkRequest, setting: str, kind: str) -> None:
    for open_links, expected in ((1, None), (2, (LIMIT_EXCEEDED, kind)), (3, (LIMIT_EXCEEDED, kind))):
        counts = {"receivers" if request_.receiver else "senders": open_links}
        assert verdict(request_, **{setting: 2}, **counts) == expected
    assert verdict(request_, **{setting: 0}) == (LIMIT_EXCEEDED, kind)


@pytest.mark.parametrize(
    ("request_", "setting", "kind"),
    [
        (LinkRequest(True, dynamic=True), "allowDynamicSource", DYNAMIC),
        (LinkRequest(False, anonymous=True), "allowAnonymousSender", ANONYMOUS),
        (replace(OUT, waypoint=True), "allowWaypointLinks", SENDER),
        (replace(IN, waypoint=True), "allowWaypointLinks", RECEIVER),
        (replace(OUT, fallback=True), "allowFallbackLinks", SENDER),
        (replace(IN, fallback=True), "allowFallbackLinks", RECEIVER),
        (replace(OUT, other_management=True), "allowAdminStatusUpdate", SENDER),
    ],
)
def test_special_links_need_their_setting(request_: LinkRequest, setting: str, kind: str) -> None:
    assert verdict(request_, **{setting: True}) is None
    assert verdict(request_, **{setting: False}) == (UNAUTHORIZED, kind)


@pytest.mark.parametrize(("more", "allowed"), [({}, False), ({"targets": "out,*"}, True),
                                               ({"targets": "", "targetPattern": "#"}, True),
                                               ({"targets": "", "targetPattern": "*"}, False)])  # fmt: skip
def test_a_target_that_is_not_known_needs_all_addresses(more: dict[str, Any], allowed: bool) -> None:
    assert (verdict(LinkRequest(False, unnamed=True), **more) is None) == allowed


# ---- what an attach asks
def sender(target: Terminus | None) -> LinkRequest:
    attach = Attach(name="n", handle=0, role=False, source=Terminus(kind="source"), target=target)
    return link_request(attach, "A", management=True)


def receiver(source: Terminus | None) -> LinkRequest:
    attach = Attach(name="n", handle=0, role=True, source=source, target=Terminus(kind="target"))
    return link_request(attach, "A", management=True)


def test_addresses_are_judged_as_routers_read_them() -> None:
    assert forms_of("amqp:/x") == forms_of("/x") == forms_of("x") == forms_of("amqp://h:1/x") == ("x",)
    assert forms_of("//x") == ("/x", "x")
    assert forms_of("/" * 100 + "x") == ()
    assert receiver(Terminus(kind="source", address="amqp:/x")) == LinkRequest(True, ("x",))
    assert sender(Terminus(kind="target", address="/" * 100 + "x")) == LinkRequest(False, unnamed=True)


@pytest.mark.parametrize("address", [None, "", "/", "amqp:/"])
def test_a_sender_without_an_address_is_anonymous_and_a_receiver_needs_all_addresses(address: str | None) -> None:
    assert sender(Terminus(kind="target", address=address)) == LinkRequest(False, anonymous=True)
    assert receiver(Terminus(kind="source", address=address)) == LinkRequest(True, unnamed=True)


def test_a_dynamic_source_is_judged_by_the_address_that_it_names() -> None:
    assert receiver(Terminus(kind="source", dynamic=True)) == LinkRequest(True, dynamic=True)
    named = Terminus(kind="source", dynamic=True, dynamic_node_properties={Symbol("x-opt-qd.address"): "q"})
    assert receiver(named) == LinkRequest(True, ("q",), dynamic=True)
    assert sender(Terminus(kind="target", dynamic=True)) == LinkRequest(False, dynamic=True, unnamed=True)


def test_an_address_beside_a_dynamic_source_is_judged_too() -> None:
    """AMQP forbids it, but the router passes it on over a link route, and a container could use it."""
    wanted = {Symbol("x-opt-qd.address"): "q"}
    both = Terminus(kind="source", dynamic=True, address="/secret", dynamic_node_properties=wanted)
    assert receiver(both) == LinkRequest(True, ("q", "secret"), dynamic=True)
    assert receiver(Terminus(kind="source", dynamic=True, address="secret")).addresses == ("secret",)
    assert receiver(Terminus(kind="source", dynamic=True, address=b"secret")).unnamed
    assert receiver(Terminus(kind="source", dynamic=True, address="")) == LinkRequest(True, dynamic=True)


def test_termini_that_cannot_be_judged_need_all_addresses() -> None:
    for source in (None, Terminus(kind="other"), Terminus(kind="source", address=Symbol("s"))):
        assert receiver(source).unnamed
    assert sender(Terminus(kind="coordinator")) == LinkRequest(False, ("$coordinator",))


def test_capabilities_ask_for_waypoint_and_fallback() -> None:
    assert sender(Terminus(kind="target", address="x", capabilities=[Symbol("qd.waypoint_2")])).waypoint
    assert receiver(Terminus(kind="source", address="x", capabilities=[Symbol("qd.fallback")])).fallback


def test_the_management_of_another_router_is_recognized_in_a_target() -> None:
    assert sender(Terminus(kind="target", address="_topo/0/B/$management")).other_management
    assert not sender(Terminus(kind="target", address="_topo/0/A/$management")).other_management
    assert not receiver(Terminus(kind="source", address="_topo/0/B/$management")).other_management


# ---- enforcement
def opened(enforcement: Enforcement, user: str = "u") -> Client:
    verdict = enforcement.connect(Request(user, "10.0.0.1", "v"), 0.0)
    assert isinstance(verdict, tuple), verdict
    return verdict[0]


def test_a_connection_counts_from_its_open_to_its_first_end() -> None:
    enforcement = Enforcement(policy_of())
    first, _ = opened(enforcement), opened(enforcement)
    assert enforcement.open.total == enforcement.open.users["v", "u"] == 2
    enforcement.closed(first)
    enforcement.closed(first)
    assert enforcement.open.total == enforcement.open.vhosts["v"] == enforcement.open.hosts["v", "10.0.0.1"] == 1


def test_links_are_counted_and_denials_reach_vhost_and_group() -> None:
    enforcement = Enforcement(policy_of(sources="in", maxReceivers=1))
    client = opened(enforcement)
    assert enforcement.attach(client, IN) is None
    assert enforcement.attach(client, IN) is not None
    enforcement.detached(client, receiver=True)
    assert enforcement.attach(client, IN) is None
    counts = enforcement.counts
    assert (counts.links_denied, counts.total_denials) == (1, 1)
    assert counts.vhosts["v"].denials.receivers == counts.vhosts["v"].group_denials["$default"].receivers == 1
    assert counts.vhosts["v"].denials == Denials(receivers=1, links=1)


def test_a_replaced_policy_is_looked_up_by_the_names_of_vhost_and_group() -> None:
    enforcement = Enforcement(policy_of(sources="in", maxMessageSize=5))
    client = opened(enforcement)
    assert enforcement.max_message_size(client) == (5, False)
    enforcement.replace(policy_of(sources="other"))
    assert enforcement.attach(client, IN) is not None
    enforcement.replace(policy_of(sources="in", maxMessageSize=7))
    assert enforcement.attach(client, IN) is None
    assert enforcement.max_message_size(client) == (7, False)
    enforcement.replace(replace(policy_of(), vhosts={}))
    assert enforcement.attach(client, IN) is not None
    enforcement.replace(Policy(PatternTree[str], max_message_size=9))
    assert enforcement.attach(client, IN) is None
    assert enforcement.max_message_size(client) == (9, False)


def test_a_name_that_became_an_alias_of_another_vhost_does_not_move_the_client() -> None:
    enforcement = Enforcement(policy_of(sources="in"))
    client = opened(enforcement)
    vhost = {"hostname": "w", "aliases": "v", "allowUnknownUser": True,
             "groups": {"$default": {"remoteHosts": "*", "sources": "*"}}}  # fmt: skip
    enforcement.replace(parse_policy({"enableVhostPolicy": True}, [vhost], PatternTree[str], lambda _: []))
    assert enforcement.attach(client, IN) is not None


class Machine(RuleBasedStateMachine):
    """Opens, links and ends in any order, compared with lists of what is open."""

    def __init__(self) -> None:
        super().__init__()
        self.enforcement = Enforcement(limited(2, 2))
        self.clients: list[Client] = []
        self.links: list[tuple[Client, bool]] = []
        self.limits = (2, 2)
        self.denied = 0

    @rule(user=st.sampled_from(["u", "v"]))
    def opens(self, user: str) -> None:
        verdict = self.enforcement.connect(Request(user, "10.0.0.1", "v"), 0.0)
        mine = sum(client.user == user for client in self.clients)
        assert isinstance(verdict, tuple) == (mine < self.limits[0])
        if isinstance(verdict, tuple):
            self.clients.append(verdict[0])
        else:
            self.denied += 1

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), receiver=st.booleans(), address=st.sampled_from(["in", "out"]))
    def attaches(self, data: st.DataObject, receiver: bool, address: str) -> None:
        client = data.draw(st.sampled_from(self.clients))
        refused = self.enforcement.attach(client, LinkRequest(receiver, (address,)))
        open_links = sum(one is client and kind == receiver for one, kind in self.links)
        assert (refused is None) == (open_links < self.limits[1] and address == ("in" if receiver else "out"))
        if refused is None:
            self.links.append((client, receiver))
        else:
            self.denied += 1

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def detaches(self, data: st.DataObject) -> None:
        client, receiver = self.links.pop(data.draw(st.integers(0, len(self.links) - 1)))
        self.enforcement.detached(client, receiver)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), times=st.integers(1, 2))
    def closes(self, data: st.DataObject, times: int) -> None:
        client = self.clients.pop(data.draw(st.integers(0, len(self.clients) - 1)))
        self.links = [link for link in self.links if link[0] is not client]
        for _ in range(times):
            self.enforcement.closed(client)

    @rule(connections=st.integers(0, 3), links=st.integers(0, 3))
    def settings_change(self, connections: int, links: int) -> None:
        self.limits = (connections, links)
        self.enforcement.replace(limited(connections, links))

    @invariant()
    def counts_are_those_of_the_lists(self) -> None:
        now_open = self.enforcement.open
        users = Counter(("v", client.user) for client in self.clients)
        assert (now_open.total, dict(now_open.users)) == (len(self.clients), dict(users))
        assert sum(now_open.vhosts.values()) == sum(now_open.hosts.values()) == len(self.clients)
        assert self.enforcement.counts.total_denials == self.denied


def limited(connections: int, links: int) -> Policy:
    counts = {"maxConnectionsPerUser": connections, "maxSenders": links, "maxReceivers": links}
    return policy_of(sources="in", targets="out", **counts)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_who_manages_is_exempt_from_the_limits_of_the_router_but_not_from_its_vhosts() -> None:
    full = parse_policy({"maxConnections": 0, "maxMessageSize": 5}, [], PatternTree[str], lambda _: [])
    enforcement = Enforcement(full)
    assert isinstance(enforcement.connect(Request("u", "10.0.0.1", "h"), 0.0), Denied)
    answer = enforcement.connect(Request("u", "10.0.0.1", "h", manages=True), 0.0)
    assert not isinstance(answer, Denied)
    assert enforcement.max_message_size(answer[0]) == (0, False)
    enforcement.replace(parse_policy({"enableVhostPolicy": True}, [], PatternTree[str], lambda _: []))
    assert isinstance(enforcement.connect(Request("u", "10.0.0.1", "h", manages=True), 0.0), Denied)
