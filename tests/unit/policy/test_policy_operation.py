"""CHECK-POLICY: the policy in force answers whether it allows a connection and a link, and says why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.management.stub_router import NODE, Manager, StubRouter
from waymesh_router.clients.policy_check import ASKED, MAX_CHARACTERS
from waymesh_router.runtime.http.openapi import document

pytestmark = pytest.mark.engine_independent
STAFF = {"users": "ann", "remoteHosts": "10.0.0.0-10.9.9.9", "sources": "news*, ${user}.in", "targets": "orders"}
GUESTS = {"remoteHosts": "*", "targets": "*", "allowAnonymousSender": True}
ABOUT = {"user": "ann", "host": "10.1.1.1", "hostname": "v", "address": "news.1", "direction": "in"}


@pytest.fixture
def router() -> StubRouter:
    return StubRouter()


@pytest.fixture
def manager(router: StubRouter) -> Manager:
    manager = Manager(router)
    groups = {"staff": STAFF, "guests": GUESTS}
    assert manager.ask("CREATE", {"hostname": "v", "connectionRate": "5/10", "groups": groups}, type="vhost")[0] == 201
    assert manager.ask("CREATE", {"hostname": "$hidden", "groups": {"staff": STAFF}}, type="vhost")[0] == 201
    assert manager.ask("UPDATE", {"enableVhostPolicy": True}, type="policy")[0] == 200
    return manager


def check(manager: Manager, **changes: Any) -> tuple[bool, list[str]]:
    status, text, body = manager.ask("CHECK-POLICY", {**ABOUT, **changes}, **NODE)
    assert status == 200, text
    return body["allowed"], body["reasons"]


def test_the_rule_that_decides_is_named(manager: Manager) -> None:
    allowed, reasons = check(manager)
    assert allowed
    assert reasons == [
        "vhost v: has the host name 'v'",
        "group staff: lists user 'ann'",
        "remoteHosts allow 10.1.1.1",
        "management: set by the listener",
        "connectionRate 5/10: of the vhost",
        "sources allow 'news.1': 'news*'",
    ]


@pytest.mark.parametrize(
    ("changes", "allowed", "reason"),
    [
        ({"address": "ann.in"}, True, "sources allow 'ann.in': '${user}.in'"),
        ({"address": "bob.in"}, False, "link denied: sources have no rule for 'bob.in': news*, ${user}.in"),
        ({"address": "orders", "direction": "out"}, True, "targets allow 'orders': 'orders'"),
        ({"user": "bob"}, False, "connection denied: vhost v: user 'bob' is in no group"),
        ({"host": "11.0.0.1"}, False, "connection denied: vhost v, group staff: host 11.0.0.1 is not allowed"),
        ({"user": "bob", "tokenGroups": ["guests"], "address": "", "direction": "out"}, True,
         "allowAnonymousSender is yes"),
        ({"user": None}, False, "connection denied: vhost v: user 'anonymous' is in no group"),
        ({"policyVhost": "$hidden"}, True, "sources allow 'news.1': 'news*'"),
    ],
)  # fmt: skip
def test_verdicts(manager: Manager, changes: dict[str, Any], allowed: bool, reason: str) -> None:
    found, reasons = check(manager, **changes)
    assert (found, reasons[-1]) == (allowed, reason)


def test_a_vhost_for_listeners_alone_has_no_host_name(manager: Manager) -> None:
    assert check(manager, hostname="$hidden")[0] is False


def test_nothing_is_counted(router: StubRouter, manager: Manager) -> None:
    check(manager)
    check(manager, user="bob")
    counts = router.policy.counts
    assert (counts.connections_processed, counts.connections_denied, counts.total_denials) == (0, 0, 0)
    assert router.policy.open.total == 0


@pytest.mark.parametrize(
    "body",
    [
        {}, {**ABOUT, "direction": "both"}, {**ABOUT, "host": "a.name"}, {**ABOUT, "user": 1}, {**ABOUT, "more": 1},
        {**ABOUT, "tokenGroups": [1]}, {**ABOUT, "tokenGroups": {"a": 1}},
        {name: value for name, value in ABOUT.items() if name != "address"},
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused(manager: Manager, body: dict[str, Any]) -> None:
    assert manager.ask("CHECK-POLICY", body, **NODE)[0] == 400


def test_long_reasons_end_early(manager: Manager) -> None:
    many = {**STAFF, "sources": ", ".join(f"address{number}" for number in range(1000))}
    manager.ask("UPDATE", {"groups": {"staff": many}}, type="vhost", identity="vhost/v")
    allowed, reasons = check(manager)
    assert not allowed
    assert max(map(len, reasons)) == MAX_CHARACTERS + 1


def test_without_policy_all_is_allowed(router: StubRouter) -> None:
    assert check(Manager(router)) == (True, ["enableVhostPolicy is no: all users and addresses are allowed"])


def test_the_parameters_of_rest_are_those_of_the_operation() -> None:
    given = document({"entityTypes": {}})["paths"]["/api/v1/check-policy"]["get"]["parameters"]
    assert [parameter["name"] for parameter in given] == [*ASKED, "router"]
