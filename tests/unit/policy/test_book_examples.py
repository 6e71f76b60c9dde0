"""The examples of the Dispatch book, 3.6.5 "Composing Policies": from their files to the verdicts of the book."""

from __future__ import annotations

from collections import Counter

import pytest

from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.decide import (
    LIMIT_EXCEEDED,
    UNAUTHORIZED,
    Allowed,
    Denied,
    Request,
    decide_connection,
    sources_of,
    targets_of,
)
from waymesh_router.policy.settings import Policy
from waymesh_router.policy.statistics import OpenConnections
from waymesh_router.policy.vhosts import parse_policy
from waymesh_schema.config import parse_conf

pytestmark = pytest.mark.engine_independent

EXAMPLE_1 = ""
EXAMPLE_2 = """
policy {
    maxConnections: 100            # (1)
    enableVhostPolicy: true
}

vhost {
    name: $default                 # (2)
    maxConnectionsPerUser: 10      # (3)
    allowUnknownUser: true         # (4)
    groups: {
        $default: {
            remoteHosts: *         # (5)
            sources: *             # (6)
            targets: *             # (6)
        }
    }
}
"""
EXAMPLE_3 = """
policy {
    enableVhostPolicy: true
}

vhost {
    name: example.com                            # (1)
    allowUnknownUser: true                       # (3)
    groups: {
        admin: {
            users: alice, bob                    # (2)
            remoteHosts: 127.0.0.1, ::1          # (2)
            sources: *
            targets: *
        }
        $default: {
            remoteHosts: *
            sources: news*, sports*, chat*       # (3)
            targets: chat*
        }
    }
}
"""


def policy_of(text: str) -> Policy:
    entries = parse_conf(text, "t.conf")
    (values,) = (entry.attributes for entry in entries if entry.type.name == "policy")
    vhosts = [entry.attributes for entry in entries if entry.type.name == "vhost"]
    return parse_policy(values, vhosts, PatternTree[str], lambda name: [])


def verdict(
    policy: Policy, user: str, host: str, hostname: str, now_open: OpenConnections | None = None
) -> Allowed | Denied:
    return decide_connection(policy, Request(user, host, hostname), now_open or OpenConnections(), 0.0)


def group_name(policy: Policy, user: str, host: str, hostname: str) -> str:
    found = verdict(policy, user, host, hostname)
    assert isinstance(found, Allowed), found
    assert found.group is not None
    return found.group.name


def links(policy: Policy, user: str, host: str, hostname: str, address: str) -> tuple[bool, bool]:
    """Whether the user may receive from the address, and send to it."""
    found = verdict(policy, user, host, hostname)
    assert isinstance(found, Allowed), found
    assert found.group is not None
    return tuple(of(policy, found.group, user).allow(address) for of in (sources_of, targets_of))  # type: ignore[return-value]


def condition(found: Allowed | Denied) -> str | None:
    return found.condition if isinstance(found, Denied) else None


def test_example_1_without_policy_everything_is_allowed() -> None:
    policy = policy_of(EXAMPLE_1)
    assert verdict(policy, "", "10.0.0.1", "any", OpenConnections(65534)) == Allowed(None, None)


def test_example_2_users_have_simple_connection_limits() -> None:
    policy = policy_of(EXAMPLE_2)
    assert group_name(policy, "ann", "10.0.0.1", "any.host") == "$default"
    assert links(policy, "ann", "10.0.0.1", "any.host", "whatever") == (True, True)
    ten = OpenConnections(10, Counter({"$default": 10}), Counter({("$default", "ann"): 10}))
    assert condition(verdict(policy, "ann", "10.0.0.1", "any", ten)) == LIMIT_EXCEEDED
    assert condition(verdict(policy, "bob", "10.0.0.1", "any", ten)) is None
    assert condition(verdict(policy, "bob", "10.0.0.1", "any", OpenConnections(100))) == LIMIT_EXCEEDED


def test_example_2_limits_the_router_also_without_enabling_vhost_policy() -> None:
    policy = policy_of(EXAMPLE_2.replace("enableVhostPolicy: true", ""))
    assert verdict(policy, "ann", "10.0.0.1", "any", OpenConnections(99)) == Allowed(None, None)
    assert condition(verdict(policy, "ann", "10.0.0.1", "any", OpenConnections(100))) == LIMIT_EXCEEDED


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_example_3_admins_connect_from_localhost_and_use_all_addresses(user: str) -> None:
    policy = policy_of(EXAMPLE_3)
    for host in ("127.0.0.1", "::1"):
        assert group_name(policy, user, host, "example.com") == "admin"
        assert links(policy, user, host, "example.com", "anything") == (True, True)
    assert condition(verdict(policy, user, "10.0.0.1", "example.com")) == UNAUTHORIZED


def test_example_3_other_users_are_restricted() -> None:
    policy = policy_of(EXAMPLE_3)
    assert group_name(policy, "carl", "10.0.0.1", "example.com") == "$default"
    for address, expected in (
        ("news.today", (True, False)),
        ("chat", (True, True)),
        ("orders", (False, False)),
        ("", (False, False)),
    ):
        assert links(policy, "carl", "10.0.0.1", "example.com", address) == expected
    assert condition(verdict(policy, "carl", "10.0.0.1", "other.com")) == UNAUTHORIZED
