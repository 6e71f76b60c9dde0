"""Decisions of the access policy: vhost, group, remote host, limits, addresses."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.decide import (
    LIMIT_EXCEEDED,
    UNAUTHORIZED,
    Allowed,
    Denied,
    Request,
    decide_connection,
    max_message_size,
    sources_of,
    targets_of,
)
from waymesh_router.policy.hosts import RemoteHosts
from waymesh_router.policy.names import AllowedAddresses
from waymesh_router.policy.settings import Policy, SettingsError
from waymesh_router.policy.statistics import OpenConnections
from waymesh_router.policy.vhosts import parse_policy
from waymesh_schema.errors import SchemaError

pytestmark = pytest.mark.engine_independent
ALL = {"remoteHosts": "*", "sources": "*", "targets": "*"}


def no_names(_: str) -> list[str]:
    return []


def policy_of(*vhosts: dict[str, Any], **values: Any) -> Policy:
    given_values = {"enableVhostPolicy": True, "defaultVhost": "$default", **values}
    return parse_policy(given_values, vhosts, PatternTree[str], no_names)


def decide(
    policy: Policy, user: str, host: str, name: str, now_open: OpenConnections | None = None
) -> Allowed | Denied:
    return decide_connection(policy, Request(user, host, name), now_open or OpenConnections(), 0.0)


def condition(verdict: Allowed | Denied) -> str | None:
    return verdict.condition if isinstance(verdict, Denied) else None


def group_name(verdict: Allowed | Denied) -> str:
    assert isinstance(verdict, Allowed), verdict
    assert verdict.group is not None
    return verdict.group.name


def test_without_vhost_policy_only_the_limit_of_the_router_applies() -> None:
    policy = policy_of(enableVhostPolicy=False, maxConnections=2)
    assert decide(policy, "u", "10.0.0.1", "x", OpenConnections(1)) == Allowed(None, None)
    assert condition(decide(policy, "u", "10.0.0.1", "x", OpenConnections(2))) == LIMIT_EXCEEDED


@pytest.mark.parametrize("patterns", [False, True])
def test_a_vhost_with_an_empty_host_name_is_for_clients_without_one(patterns: bool) -> None:
    nameless = {"hostname": "", "groups": {"g": {**ALL, "users": "ann"}}}
    policy = policy_of(nameless, defaultVhost="", enableVhostNamePatterns=patterns)
    assert group_name(decide(policy, "ann", "10.0.0.1", "")) == "g"
    assert condition(decide(policy, "bob", "10.0.0.1", "")) == UNAUTHORIZED
    assert condition(decide(policy, "ann", "10.0.0.1", "other")) == UNAUTHORIZED, "an empty defaultVhost is none"


def test_example_2_of_the_book_limits_each_user_on_any_vhost() -> None:
    policy = policy_of(
        {"hostname": "$default", "maxConnectionsPerUser": 10, "allowUnknownUser": True, "groups": {"$default": ALL}},
        maxConnections=100,
    )
    assert group_name(decide(policy, "ann", "10.0.0.1", "any")) == "$default"
    at_limit = OpenConnections(10, users=Counter({("$default", "ann"): 10}))
    assert condition(decide(policy, "ann", "10.0.0.1", "any", at_limit)) == LIMIT_EXCEEDED
    assert condition(decide(policy, "bob", "10.0.0.1", "any", at_limit)) is None
    assert condition(decide(policy, "bob", "10.0.0.1", "any", OpenConnections(100))) == LIMIT_EXCEEDED


def test_example_3_of_the_book_admins_connect_from_localhost_only() -> None:
    groups = {"admin": {**ALL, "users": "alice, bob", "remoteHosts": "127.0.0.1, ::1"}, "$default": ALL}
    policy = policy_of({"hostname": "example.com", "allowUnknownUser": True, "groups": groups})
    assert group_name(decide(policy, "alice", "127.0.0.1", "example.com")) == "admin"
    assert group_name(decide(policy, "alice", "::1", "example.com")) == "admin"
    assert condition(decide(policy, "bob", "10.0.0.1", "example.com")) == UNAUTHORIZED
    assert group_name(decide(policy, "carl", "10.0.0.1", "example.com")) == "$default"
    assert condition(decide(policy, "carl", "10.0.0.1", "other.com")) == UNAUTHORIZED


@given(
    user=st.sampled_from(["ann", "bob", ""]),
    last=st.integers(0, 255),
    name=st.sampled_from(["a", "alias", "b", "other"]),
    default=st.sampled_from(["a", "b", "", "missing"]),
    unknown=st.booleans(),
)
def test_user_host_and_vhost_together_decide_as_the_oracle(
    user: str, last: int, name: str, default: str, unknown: bool
) -> None:
    near = {"users": ["ann"], "remoteHosts": "10.0.0.10-10.0.0.20"}
    policy = policy_of(
        {"hostname": "a", "aliases": "alias", "groups": {"near": near, "$default": ALL}, "allowUnknownUser": unknown},
        {"hostname": "b", "groups": {"far": {"users": "bob", "remoteHosts": "*"}}},
        defaultVhost=default,
    )
    vhost = {"a": "a", "alias": "a", "b": "b"}.get(name, default)
    expected = (vhost == "a" and ((user == "ann" and 10 <= last <= 20) or (user != "ann" and unknown))) or (
        vhost == "b" and user == "bob"
    )
    assert isinstance(decide(policy, user, f"10.0.0.{last}", name), Allowed) == expected


@pytest.mark.parametrize("attribute", ["maxConnections", "maxConnectionsPerUser", "maxConnectionsPerHost"])
def test_a_limit_of_a_vhost_allows_up_to_its_number(attribute: str) -> None:
    policy = policy_of({"hostname": "v", attribute: 2, "groups": {"g": {"users": "u", "remoteHosts": "*"}}})
    for count, wanted in ((1, None), (2, LIMIT_EXCEEDED)):
        now_open = OpenConnections(
            count, Counter({"v": count}), Counter({("v", "u"): count}), Counter({("v", "10.0.0.1"): count})
        )
        assert condition(decide(policy, "u", "10.0.0.1", "v", now_open)) == wanted


def test_a_limit_of_zero_in_the_group_replaces_that_of_the_vhost() -> None:
    group = {"users": "u", "remoteHosts": "*", "maxConnectionsPerUser": 0}
    policy = policy_of({"hostname": "v", "maxConnectionsPerUser": 5, "groups": {"g": group}})
    assert condition(decide(policy, "u", "10.0.0.1", "v")) == LIMIT_EXCEEDED


def test_host_names_are_patterns_only_if_enabled() -> None:
    vhost = {"hostname": "*.example.com", "allowUnknownUser": True, "groups": {"$default": ALL}}
    assert condition(decide(policy_of(vhost), "u", "::1", "a.example.com")) == UNAUTHORIZED
    assert condition(decide(policy_of(vhost, enableVhostNamePatterns=True), "u", "::1", "a.example.com")) is None


@pytest.mark.parametrize(
    ("vhosts", "text"),
    [
        ([{"hostname": "v", "groups": {"a": {"users": "u"}, "b": {"users": "u"}}}], "user 'u' is also in group a"),
        ([{"hostname": "v", "aliases": "w"}, {"hostname": "w"}], "'w' is already a name of v"),
        ([{"hostname": "v", "allowUnknownUser": True}], "needs a group"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "10.0.*"}}}], "must stand alone"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "*.0.0.1"}}}], "must stand alone"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "10.0.999.*"}}}], "two addresses of one family"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "10.0.0.9-10.0.0.1"}}}], "the lower one first"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "10.0.0.999"}}}], "not an address"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "10.0.0.1/8"}}}], "write 10.0.0.0/8"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "10.0.0.0/33"}}}], "not a network, such as"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "10.0.0.0/255.0.0.0"}}}], "not a network, such as"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "fe80::1%eth0"}}}], "must not have a zone"),
        ([{"hostname": "v", "groups": {"g": {"remoteHosts": "fe80::1-fe80::9%eth0"}}}], "must not have a zone"),
        ([{"hostname": "v", "groups": {"g": {"sources": "a", "sourcePattern": "b"}}}], "exclude each other"),
        ([{"hostname": "v", "groups": {"g": {"sources": "a, b*c"}}}], "groups.g.sources: 'b[*]c': . is only"),
        ([{"hostname": "v", "groups": {"g": {"targets": ["a*", "**"]}}}], "groups.g.targets: '[*][*]': . is only"),
        ([{"hostname": "v", "groups": {"g": {"targets": ["a,b"]}}}], "groups.g.targets: 'a,b': must not"),
        ([{"hostname": "v", "groups": {"g": {"users": "*"}}}], "groups.g.users: [*] is only for the group [$]default"),
        ([{"hostname": "v", "groups": {"$default": {"users": "*"}}}], "with allowUnknownUser: yes"),
        ([{"hostname": "v", "groups": {"g": {"maxFrameSize": 511}}}], "at least 512"),
    ],
)
def test_settings_that_cannot_be_enforced_are_refused(vhosts: list[dict[str, Any]], text: str) -> None:
    with pytest.raises((SettingsError, SchemaError), match=text):
        policy_of(*vhosts)


def test_remote_hosts_may_be_names_and_mapped_addresses() -> None:
    hosts = RemoteHosts(["broker.example", "10.0.0.7"], lambda name: ["10.1.1.1"])
    assert hosts.allow("10.1.1.1")
    assert hosts.allow("::ffff:10.0.0.7")
    assert not hosts.allow("10.1.1.2")
    assert not hosts.allow("nonsense")
    assert not RemoteHosts([], no_names).allow("10.0.0.1")


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        ("10.0.0.0/8", ("10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"), ("9.255.255.255", "11.0.0.0", "::a00:1")),
        ("10.1.2.3/32", ("10.1.2.3",), ("10.1.2.4",)),
        ("2001:db8::/33", ("2001:db8::", "2001:db8:7fff::1"), ("2001:db8:8000::", "10.0.0.1")),
        ("::ffff:10.0.0.0/104", ("10.9.9.9",), ("11.0.0.0",)),
        ("192.168.1.*", ("192.168.1.0", "192.168.1.255"), ("192.168.0.255", "192.168.2.0")),
        ("192.168.*.*", ("192.168.0.0", "192.168.255.255"), ("192.169.0.0",)),
        ("10.*.*.*", ("10.0.0.0", "10.255.255.255"), ("11.0.0.0",)),
    ],
)
def test_remote_hosts_may_be_networks(rule: str, inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    hosts = RemoteHosts([rule], no_names)
    assert all(map(hosts.allow, inside))
    assert not any(map(hosts.allow, outside))


def allowed(rules: list[str], address: str, user: str = "ann", patterns: tuple[str, ...] = ()) -> bool:
    return AllowedAddresses(rules, patterns, user, PatternTree[str]).allow(address)


def test_address_rules_have_a_wildcard_at_the_end_and_the_user_once() -> None:
    rules = ["tmp_{user}", "temp*", "${user}-home-*", "{user}.{user}", "a*b"]
    for address in ("tmp_ann", "temp", "temp1", "ann-home-x", "ann.{user}", "a*b"):
        assert allowed(rules, address), address
    for address in ("tmp_bob", "tmp_annx", "bob-home-x", "ann.ann", "axb", ""):
        assert not allowed(rules, address), address
    assert not allowed([], "x")


def test_a_wildcard_in_a_user_name_gains_nothing() -> None:
    assert not allowed(["home.${user}"], "home.x", "*")
    for user in ("*", "#", "a.#"):
        assert not allowed([], "home.x", user, ("home.${user}",))
        assert not allowed([], "home.a.x", user, ("home.${user}",))


@pytest.mark.parametrize("user", ["", ".", "a."])
def test_a_name_that_is_empty_or_has_an_empty_word_gains_nothing(user: str) -> None:
    assert not allowed([], "x/y", user, ("${user}.#",))
    assert not allowed(["${user}*"], "x/y", user)


def test_patterns_of_sources_and_targets_apply_each_to_its_direction() -> None:
    group = {"users": "ann", "remoteHosts": "*", "sourcePattern": "${user}.*", "targets": "in", "maxMessageSize": 5}
    policy = policy_of({"hostname": "v", "maxMessageSize": 9, "groups": {"g": group}})
    verdict = decide(policy, "ann", "::1", "v")
    assert isinstance(verdict, Allowed)
    assert verdict.group is not None
    sources, targets = (of(policy, verdict.group, "ann") for of in (sources_of, targets_of))
    assert sources.allow("ann.x")
    assert not sources.allow("bob.x")
    assert not sources.allow("in")
    assert targets.allow("in")
    assert not targets.allow("ann.x")
    assert max_message_size(policy, verdict) == 5


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize(
    ("user", "claimed", "expected"),
    [
        ("alice", (), "staff"),
        ("alice", ("admins",), "staff"),
        ("bob", ("admins",), "admins"),
        ("bob", ("others", "admins", "admins"), "admins"),
        ("bob", ("Admins", "admins ", ""), None),
        ("bob", ("$default",), None),
        ("bob", ("admins", "staff"), "several groups: admins, staff"),
        ("alice", ("admins", "staff"), "staff"),
        ("mallory", ("admins",), "blocked"),
    ],
)
def test_the_groups_of_a_token_name_the_user_group(
    unknown: bool, user: str, claimed: tuple[str, ...], expected: str | None
) -> None:
    groups = {"staff": {**ALL, "users": "alice"}, "admins": ALL, "$default": ALL}
    policy = policy_of({"hostname": "v", "groups": groups, "allowUnknownUser": unknown, "blockedUsers": "mallory"})
    verdict = decide_connection(policy, Request(user, "10.0.0.1", "v", groups=claimed), OpenConnections(), 0.0)
    if expected in groups:
        assert group_name(verdict) == expected
    elif expected is None and unknown:
        assert group_name(verdict) == "$default"
    else:
        assert isinstance(verdict, Denied)
        assert (expected or "is in no group") in verdict.reason
