"""Rates of new connections, blocked users, warnings near a maximum, and the dry run, as pure decisions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.decide import LIMIT_EXCEEDED, UNAUTHORIZED, Denied, Request
from waymesh_router.policy.enforcement import Client, Enforcement
from waymesh_router.policy.links import LinkRequest
from waymesh_router.policy.rates import Arrivals
from waymesh_router.policy.vhosts import parse_policy
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.rates import Rate, parse_rate
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent
ALL = {"remoteHosts": "*", "sources": "*", "targets": "*"}


def enforcement(group: dict[str, Any] | None = None, policy: dict[str, Any] | None = None, **vhost: Any) -> Enforcement:
    """Everything allowed to everybody at the vhost `v`, but for these settings; `friends` is a group of `ann`."""
    groups = {"$default": {**ALL}, "friends": {**ALL, "users": "ann", **(group or {})}}
    values = {"hostname": "v", "allowUnknownUser": True, "groups": groups, **vhost}
    return Enforcement(
        parse_policy({"enableVhostPolicy": True, **(policy or {})}, [values], PatternTree[str], lambda _: [])
    )


def told(there: Enforcement, user: str, now: float = 0.0, host: str = "10.0.0.1", **request: Any) -> str:
    """The reason of a refusal, "" if the connection is allowed."""
    verdict = there.connect(Request(user, host, "v", **request), now)
    return verdict.reason if isinstance(verdict, Denied) else ""


def opened(there: Enforcement, user: str = "u", now: float = 0.0) -> Client:
    verdict = there.connect(Request(user, "10.0.0.1", "v"), now)
    assert isinstance(verdict, tuple), verdict
    return verdict[0]


# ---- rates
def test_a_rate_allows_its_number_at_once_and_then_one_at_a_time() -> None:
    there, rate = Arrivals[str](), Rate(3, 6)
    times = (0, 0, 0, 0, 1.9, 2, 2, 4, 10, 10, 10, 10)
    taken = []
    for now in times:
        taken.append(there.has_room("k", rate, now))
        there.add("k", rate, now)
    assert taken == [True, True, True, False, False, True, False, True, True, True, True, False]


@given(
    st.integers(1, 20),
    st.integers(1, 20),
    st.lists(st.floats(0, 5), max_size=80),
)
def test_no_span_has_more_than_the_number_at_once_and_the_rate_of_the_span(
    connections: int, seconds: int, gaps: list[float]
) -> None:
    there, rate = Arrivals[str](), Rate(connections, seconds)
    now, allowed = 100.0, []
    for gap in gaps:
        now += gap
        if there.has_room("k", rate, now):
            allowed.append(now)
        there.add("k", rate, now)
    for index, first in enumerate(allowed):
        for number, last in enumerate(allowed[index:], 1):
            assert number <= connections + (last - first) * connections / seconds + 1e-3


def test_the_state_of_many_users_is_bounded_and_keeps_those_near_their_limit() -> None:
    there, rate = Arrivals[int](100), Rate(2, 60)
    there.add(-1, rate, 0.0)
    there.add(-1, rate, 0.0)
    for user in range(10_000):
        there.add(user, rate, user * 1e-4)
        assert len(there) <= 100
    assert not there.has_room(-1, rate, 1.0)


def test_another_rate_of_a_key_starts_afresh() -> None:
    there = Arrivals[str]()
    there.add("k", Rate(1, 86400), 0.0)
    assert not there.has_room("k", Rate(1, 86400), 1.0)
    assert there.has_room("k", Rate(1, 1), 1.0)


@pytest.mark.parametrize(
    ("vhost", "group", "reason"),
    [
        ({"connectionRate": "2/60"}, {}, "connectionRate 2/60"),
        ({"connectionRatePerUser": "2/60"}, {}, "connectionRatePerUser 2/60"),
        ({"connectionRatePerHost": "2/60"}, {}, "connectionRatePerHost 2/60"),
        ({"connectionRatePerUser": "9/60"}, {"connectionRatePerUser": "2/60"}, "connectionRatePerUser 2/60"),
        ({"connectionRatePerHost": "1/60"}, {"connectionRatePerHost": "2/60"}, "connectionRatePerHost 2/60"),
        ({"connectionRatePerUser": "1/60", "userConnectionRates": {"ann": "2/60"}}, {"connectionRatePerUser": "1/60"},
         "userConnectionRates 2/60"),
    ],
)  # fmt: skip
def test_the_rate_of_the_user_comes_before_that_of_the_group_and_of_the_vhost(
    vhost: dict[str, Any], group: dict[str, Any], reason: str
) -> None:
    there = enforcement(group, **vhost)
    assert [told(there, "ann") for _ in range(3)] == ["", "", f"vhost v: {reason} is reached"]
    assert there.counts.connections_denied == 1
    assert told(there, "ann", 30.0) == ""


def test_none_lifts_the_limit_of_the_level_above() -> None:
    there = enforcement({"connectionRatePerHost": "none"}, connectionRatePerUser="1/60", connectionRatePerHost="1/60",
                        userConnectionRates={"ann": "none"})  # fmt: skip
    assert [told(there, "ann") for _ in range(9)] == [""] * 9
    assert told(there, "bob") == ""
    assert "connectionRatePerUser" in told(there, "bob")


def test_refused_connections_do_not_count_to_a_rate() -> None:
    there = enforcement(connectionRatePerUser="1/10")
    assert told(there, "ann") == ""
    assert all(told(there, "ann", float(now)) for now in range(1, 10))
    assert told(there, "ann", 10.0) == ""


def test_the_rate_of_a_listener_holds_without_vhost_policy_and_in_a_dry_run() -> None:
    there = enforcement(policy={"enableVhostPolicy": False, "dryRun": True})
    asked: dict[str, Any] = {"listener": "l", "listener_rate": Rate(1, 60)}
    assert told(there, "ann", **asked) == ""
    assert told(there, "ann", **asked) == "listener l: connectionRate 1/60 is reached"


@pytest.mark.parametrize("text", ["", "5", "5/", "0/1", "1/0", "-1/1", "1/86401", "1/1s", "9999999999/1", " 1/1"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be connections/seconds"):
        parse_rate(text)
    for values in ({"connectionRate": text}, {"userConnectionRates": {"u": text}},
                   {"groups": {"g": {"connectionRatePerHost": text}}}):  # fmt: skip
        with pytest.raises(SchemaError, match="must be connections/seconds"):
            validate_create(entity_type("vhost"), {"hostname": "v", **values})


@pytest.mark.parametrize("values", [{"http": True, "websockets": False}, {"role": "inter-router"}])
def test_a_rate_of_a_listener_without_amqp_clients_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="connectionRate: is "):
        validate_create(entity_type("listener"), {"port": 5672, "connectionRate": "1/1", **values})


# ---- blocked
def test_blocked_users_and_groups_may_not_connect() -> None:
    there = enforcement({"blocked": True}, blockedUsers="mallory")
    for user, reason in (("mallory", "is among the blockedUsers"), ("ann", "group friends: blocked is yes")):
        verdict = there.connect(Request(user, "10.0.0.1", "v"), 0.0)
        assert isinstance(verdict, Denied)
        assert verdict.condition == UNAUTHORIZED
        assert reason in verdict.reason
    assert told(there, "bob") == ""


def test_a_user_cannot_be_blocked_and_have_a_rate() -> None:
    with pytest.raises(SchemaError, match="is among the blockedUsers, too"):
        enforcement(blockedUsers="ann", userConnectionRates={"ann": "1/1"})


@pytest.mark.parametrize("settings", [{"blockedUsers": "ann, *"}, {"userConnectionRates": {"*": "1/1"}}])
def test_all_users_are_not_a_user(settings: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match=r"\* is not a user"):
        enforcement(**settings)


# ---- warnings
def warned(there: Enforcement, client: Client, now: float) -> list[str]:
    return [level.text for level in there.due_warnings(client, now)]


def test_a_warning_comes_once_until_the_number_is_well_below() -> None:
    there = enforcement(maxConnectionsPerUser=10, policy={"warnAtPercent": 80})
    clients: list[Client] = []

    def add(now: float) -> list[str]:
        clients.append(opened(there, now=now))
        return warned(there, clients[-1], now)

    text = ["vhost v, user 'u': 8 of 10 connections are open (maxConnectionsPerUser)"]
    assert [add(0.0) for _ in range(9)] == [[]] * 7 + [text] + [[]]
    for _ in range(2):
        there.closed(clients.pop())
    assert (add(100.0), add(100.0)) == ([], []), "7 is not well below"
    for _ in range(5):
        there.closed(clients.pop())
    assert [add(200.0) for _ in range(4)] == [[]] * 3 + [text]


def test_a_small_maximum_warns_once_a_minute() -> None:
    there = enforcement(maxConnectionsPerUser=1, warnAtPercent=100)
    found = []
    for now in range(0, 150, 10):
        client = opened(there, now=float(now))
        found += [now for _ in warned(there, client, float(now))]
        there.closed(client)
    assert found == [0, 60, 120]


def test_the_percentage_of_the_vhost_replaces_that_of_the_policy() -> None:
    there = enforcement(maxConnections=4, warnAtPercent=0, policy={"warnAtPercent": 50, "maxConnections": 4})
    texts = [text for _ in range(4) for text in warned(there, opened(there), 0.0)]
    assert texts == ["router: 2 of 4 connections are open (maxConnections)"]


# ---- dry run
@pytest.mark.parametrize("level", ["policy", "vhost"])
def test_a_dry_run_allows_and_counts_what_would_be_denied(level: str) -> None:
    dry = {"dryRun": True}
    there = enforcement({"sources": "in"}, policy=dry if level == "policy" else {}, maxConnections=1,
                        blockedUsers="bob", **(dry if level == "vhost" else {}))  # fmt: skip
    ann = opened(there, "ann")
    denied = there.attach(ann, LinkRequest(True, ("out",)))
    assert denied is not None
    assert not denied.carried_out
    assert ann.receivers == 1
    for user in ("bob", "ann"):
        verdict = there.connect(Request(user, "10.0.0.1", "v"), 0.0)
        assert isinstance(verdict, tuple)
        assert verdict[1].would is not None
    assert (there.counts.connections_denied, there.counts.links_denied, there.counts.total_denials) == (0, 0, 0)
    for dry_run in (there.counts.dry_run, there.counts.vhosts["v"].dry_run):
        assert (dry_run.connections, dry_run.links, dry_run.denials) == (2, 1, 3)


def test_a_dry_run_of_a_vhost_does_not_concern_the_policy() -> None:
    there = enforcement(dryRun=True, policy={"maxConnections": 1, "maxMessageSize": 7, "defaultVhost": ""})
    client = opened(there)
    assert there.max_message_size(client) == (7, False)
    verdict = there.connect(Request("u", "10.0.0.1", "v"), 0.0)
    assert isinstance(verdict, Denied)
    assert verdict.condition == LIMIT_EXCEEDED
    there.closed(client)
    assert isinstance(there.connect(Request("u", "10.0.0.1", "other"), 0.0), Denied)


def test_a_dry_run_of_the_policy_lets_in_whom_no_vhost_or_group_has() -> None:
    there = enforcement(policy={"dryRun": True, "defaultVhost": ""}, allowUnknownUser=False)
    for hostname in ("other", "v"):
        verdict = there.connect(Request("eve", "10.0.0.1", hostname), 0.0)
        assert isinstance(verdict, tuple)
        client, allowed = verdict
        assert allowed.would is not None
        assert there.attach(client, LinkRequest(True, ("any",))) is None
        there.closed(client)
    assert there.open.total == len(there.open.vhosts) == 0
    assert there.counts.dry_run.connections == 2


def test_connections_that_a_dry_run_lets_in_over_a_rate_do_not_count_to_it() -> None:
    there = enforcement(connectionRatePerUser="1/10", dryRun=True)
    for now in (0.0, 5.0, 9.0):
        opened(there, "ann", now)
    assert there.counts.dry_run.connections == 2
    opened(there, "ann", 10.0)
    assert there.counts.dry_run.connections == 2
