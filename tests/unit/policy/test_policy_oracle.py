"""Decisions on connections by user, host and vhost, compared with a plain reading of docs/policy.md."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.decide import Allowed, Request, decide_connection
from waymesh_router.policy.statistics import OpenConnections
from waymesh_router.policy.vhosts import parse_policy

pytestmark = pytest.mark.engine_independent
USERS = ("ann", "bob", "cid")
HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.1.1", "::1")
NAMES = ("a", "b", "c", "$default")
RULES = {
    "": (),
    "*": HOSTS,
    "10.0.0.1": ("10.0.0.1",),
    "10.0.0.2-10.0.1.1": ("10.0.0.2", "10.0.1.1"),
    "::1, 10.0.0.2": ("::1", "10.0.0.2"),
    "10.0.0.0/24": ("10.0.0.1", "10.0.0.2"),
    "10.0.1.*": ("10.0.1.1",),
}
"""remoteHosts, and those of HOSTS that they stand for."""
LIMITS = st.none() | st.integers(0, 2)


@st.composite
def vhosts(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        placed = draw(st.dictionaries(st.sampled_from(USERS), st.sampled_from(("g", "h", "$default"))))
        groups = {
            group: {
                "users": [user for user, of in placed.items() if of == group],
                "remoteHosts": draw(st.sampled_from(list(RULES))),
                "maxConnectionsPerUser": draw(LIMITS),
                "maxConnectionsPerHost": draw(LIMITS),
            }
            for group in ("g", "h", "$default")
        }
        limits = {f"maxConnections{of}": draw(st.integers(0, 2)) for of in ("", "PerUser", "PerHost")}
        found.append({"hostname": name, "allowUnknownUser": draw(st.booleans()), "groups": groups, **limits})
    return found


def oracle(
    given_vhosts: list[dict[str, Any]], default: str, who: tuple[str, str, str], now_open: list[tuple[str, str, str]]
) -> bool:
    """Whether docs/policy.md allows the connection. `who` and `now_open`: user, host and vhost."""
    user, host, hostname = who
    by_name = {vhost["hostname"]: vhost for vhost in given_vhosts}
    vhost = by_name.get(hostname) or by_name.get(default)
    if vhost is None:
        return False
    listed = [group for group in vhost["groups"].values() if user in group["users"]]
    group = listed[0] if listed else vhost["groups"]["$default"] if vhost["allowUnknownUser"] else None
    if group is None or host not in RULES[group["remoteHosts"]]:
        return False
    mine = [there for there in now_open if there[2] == vhost["hostname"]]

    def limit(name: str) -> int:
        return int(vhost[name] if group.get(name) is None else group[name])

    return (
        len(mine) < vhost["maxConnections"]
        and sum(there[0] == user for there in mine) < limit("maxConnectionsPerUser")
        and sum(there[1] == host for there in mine) < limit("maxConnectionsPerHost")
    )


@settings(max_examples=100, deadline=None)
@given(
    vhosts(),
    st.sampled_from(("$default", "a", "")),
    st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from(HOSTS), st.sampled_from(NAMES)), max_size=3),
)
def test_every_user_host_and_vhost_is_decided_as_documented(
    given_vhosts: list[dict[str, Any]], default: str, now_open: list[tuple[str, str, str]]
) -> None:
    values = {"enableVhostPolicy": True, "defaultVhost": default}
    policy = parse_policy(values, given_vhosts, PatternTree[str], lambda _: ())
    counts = OpenConnections()
    for user, host, name in now_open:
        counts.total += 1
        counts.vhosts[name] += 1
        counts.users[name, user] += 1
        counts.hosts[name, host] += 1
    for who in [(user, host, name) for user in USERS for host in HOSTS for name in (*NAMES, "other")]:
        verdict = decide_connection(policy, Request(*who), counts, 0.0)
        assert isinstance(verdict, Allowed) == oracle(given_vhosts, default, who, now_open), (who, verdict)
