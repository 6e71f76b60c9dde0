"""The policy matrix for connections: each setting allowed, denied, at its limit, over it, changed meanwhile.

One router for all rows. The settings for links, and the proof that none is missing: test_policy_matrix_links.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.guarded import LIMIT, UNAUTHORIZED
from tests.interop.matrix_world import OK, VHOST, Link, World, running

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


world = pytest.fixture(scope="module")(running)


# ---- numbers of connections: setting → user and address of clients that the limit does not concern
CONNECTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "policy.maxConnections": (),
    "vhost.maxConnections": (),
    "vhost.maxConnectionsPerUser": (("bob", ""),),
    "group.maxConnectionsPerUser": (("bob", ""),),
    "vhost.maxConnectionsPerHost": (("alice", "127.0.0.2"), ("bob", "127.0.0.2")),
    "group.maxConnectionsPerHost": (("alice", "127.0.0.2"), ("bob", "127.0.0.2")),
}


@pytest.mark.parametrize("setting", CONNECTIONS)
def test_a_number_of_connections(world: World, setting: str) -> None:
    world.base()
    world.change(setting, 2)
    before = world.denied()
    kept = [world.join(), world.join()]
    assert [member.verdict for member in kept] == [OK, OK]  # up to the limit
    assert [world.join().verdict, world.join().verdict] == [LIMIT, LIMIT]
    for user, source in CONNECTIONS[setting]:
        world.leave(unconcerned := world.join(user, source=source))
        assert unconcerned.verdict == OK
    world.change(setting, 3)
    kept.append(world.join())
    assert [kept[-1].verdict, world.join().verdict] == [OK, LIMIT]
    world.change(setting, 1)
    assert all(member.answers() for member in kept)  # the open ones stay
    for _ in range(3):
        assert world.join().verdict == LIMIT
        world.leave(kept.pop())
    assert world.join().verdict == OK
    world.change(setting, 0)
    assert world.join().verdict == LIMIT
    assert world.denied() - before == 7


# ---- rates of new connections
RATES = {
    "vhost.connectionRate": (),
    "vhost.connectionRatePerUser": (("bob", ""),),
    "group.connectionRatePerUser": (("bob", ""),),
    "vhost.userConnectionRates": (("bob", ""),),
    "vhost.connectionRatePerHost": (("alice", "127.0.0.2"),),
    "group.connectionRatePerHost": (("alice", "127.0.0.2"),),
}


@pytest.mark.parametrize("setting", RATES)
def test_a_rate_of_connections(world: World, setting: str) -> None:
    def rate(number: int) -> Any:
        text = f"{number}/86400"
        return {"alice": text} if setting == "vhost.userConnectionRates" else text

    world.base()
    world.change(setting, rate(2))
    kept = [world.join(), world.join()]
    assert [member.verdict for member in kept] == [OK, OK]
    world.leave(kept.pop())
    assert world.join().verdict == LIMIT  # connections that are closed count, too
    for user, source in RATES[setting]:
        assert world.join(user, source=source).verdict == OK
    world.change(setting, rate(1))  # a changed rate starts afresh
    assert [world.join().verdict, world.join().verdict] == [OK, LIMIT]
    assert kept[0].answers()
    world.change(setting, None)
    assert world.join().verdict == OK


# ---- who may connect: setting → value that allows alice at 127.0.0.1, values that do not
WHO: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "policy.enableVhostPolicy": (True, ()),
    "policy.defaultVhost": (VHOST, ("", "nowhere")),
    "policy.enableVhostNamePatterns": (False, ()),
    "vhost.hostname": (VHOST, ("w",)),
    "vhost.aliases": ("x, v2", ("x",)),
    "vhost.allowUnknownUser": (True, (False,)),
    "vhost.blockedUsers": ("bob", ("alice", "bob, alice")),
    "group.blocked": (False, (True,)),
    "group.users": ("alice", ("", "bob", "Alice")),
    "group.remoteHosts": ("127.0.0.1", ("", "127.0.0.0", "127.0.0.2-127.0.0.9", "::1")),
}
ASKED = {"policy.defaultVhost": "unknown", "vhost.aliases": "v2"}
"""The host name that the client sends, if not VHOST."""


@pytest.mark.parametrize("setting", WHO)
def test_who_may_connect(world: World, setting: str) -> None:
    allowing, denying = WHO[setting]
    world.base(policy__defaultVhost="", vhost__allowUnknownUser=setting == "vhost.allowUnknownUser")
    if setting == "vhost.allowUnknownUser":
        world.change("group.users", "bob")
    name = ASKED.get(setting, VHOST)
    world.change(setting, allowing)
    kept = world.join(hostname=name)
    assert kept.verdict == OK
    for value in denying:
        world.change(setting, value)
        assert world.join(hostname=name).verdict == UNAUTHORIZED, value
        assert kept.answers()  # changes concern the next connections
    world.change(setting, allowing)
    assert world.join(hostname=name).verdict == OK
    assert isinstance(kept.attach(True, "a"), Link)


def test_the_edges_of_a_range_of_hosts(world: World) -> None:
    world.base(group__remoteHosts="127.0.0.2-127.0.0.4, 127.0.0.9")
    found = {last: world.join(source=f"127.0.0.{last}").verdict == OK for last in (1, 2, 4, 5, 8, 9, 10)}
    assert found == {1: False, 2: True, 4: True, 5: False, 8: False, 9: True, 10: False}


def test_patterns_of_host_names_are_switched_on_and_off(world: World) -> None:
    world.base(policy__defaultVhost="", vhost__hostname="*.example")
    assert world.join(hostname="a.example").verdict == UNAUTHORIZED
    world.change("policy.enableVhostNamePatterns", True)
    kept = world.join(hostname="a.example")
    assert [kept.verdict, world.join(hostname="a.b.example").verdict] == [OK, UNAUTHORIZED]
    world.change("policy.enableVhostNamePatterns", False)
    assert world.join(hostname="a.example").verdict == UNAUTHORIZED
    assert kept.tries(True, "a") == OK


def test_vhost_policy_is_switched_on_and_off(world: World) -> None:
    world.base(policy__defaultVhost="", policy__enableVhostPolicy=False, group__sources="")
    free = world.join(hostname="unknown")
    assert [free.verdict, free.tries(True, "a")] == [OK, OK]
    world.change("policy.enableVhostPolicy", True)
    bound = world.join()
    assert [bound.verdict, bound.tries(True, "a"), free.tries(True, "b")] == [OK, UNAUTHORIZED, OK]
    assert world.join(hostname="unknown").verdict == UNAUTHORIZED
    world.change("policy.enableVhostPolicy", False)
    assert [bound.tries(True, "a"), world.join(hostname="unknown").verdict] == [OK, OK]
