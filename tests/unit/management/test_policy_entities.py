"""The entities of the access policy over management: `policy`, `vhost`, `vhostStats`, `vhostUserGroupStats`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.unit.management.stub_router import Manager, StubRouter
from waymesh_router.policy.decide import Allowed, Denied, Request, decide_connection
from waymesh_router.policy.statistics import Denials, OpenConnections, VhostCounts

pytestmark = pytest.mark.engine_independent
ALL = {"remoteHosts": "*", "sources": "*", "targets": "*"}
STAFF = {**ALL, "users": "ann, bob"}


@pytest.fixture
def router() -> StubRouter:
    return StubRouter()


@pytest.fixture
def manager(router: StubRouter) -> Manager:
    return Manager(router)


def allowed(router: StubRouter, user: str, hostname: str, host: str = "10.1.1.1") -> bool:
    verdict = decide_connection(router.policy.policy, Request(user, host, hostname), OpenConnections(), 0.0)
    assert isinstance(verdict, (Allowed, Denied))
    return isinstance(verdict, Allowed)


def create(manager: Manager, hostname: str, **attributes: Any) -> tuple[int, str, Any]:
    return manager.ask("CREATE", {"hostname": hostname, **attributes}, type="vhost")


def change(manager: Manager, hostname: str, **attributes: Any) -> tuple[int, str, Any]:
    return manager.ask("UPDATE", attributes, type="vhost", identity=f"vhost/{hostname}")


def enable(manager: Manager, **attributes: Any) -> None:
    status, text, _ = manager.ask("UPDATE", {"enableVhostPolicy": True, **attributes}, type="policy")
    assert status == 200, text


def test_the_policy_row_exists_without_a_section(manager: Manager) -> None:
    (row,) = manager.rows("policy")
    assert row["maxConnections"] == 65535
    assert row["enableVhostPolicy"] is False
    assert row["defaultVhost"] == "$default"
    assert row["connectionsProcessed"] == row["totalDenials"] == 0
    assert manager.ask("READ", type="policy")[2]["identity"] == row["identity"]


def test_vhosts_are_created_read_changed_and_deleted_in_force_at_once(router: StubRouter, manager: Manager) -> None:
    enable(manager)
    status, _, made = create(manager, "v", groups={"staff": STAFF})
    assert status == 201
    assert made["identity"] == made["name"] == "vhost/v"
    assert made["groups"]["staff"]["users"] == "ann, bob"
    assert made["groups"]["staff"]["maxSenders"] == 2**31 - 1
    assert allowed(router, "ann", "v")
    assert not allowed(router, "cid", "v")
    assert change(manager, "v", groups={"other": {**ALL, "users": ["cid"]}})[0] == 200
    assert not allowed(router, "ann", "v")
    assert allowed(router, "cid", "v")
    (row,) = manager.rows("vhost")
    assert set(row["groups"]) == {"other"}
    assert manager.ask("DELETE", type="vhost", name="vhost/v")[0] == 204
    assert not allowed(router, "cid", "v")
    assert manager.rows("vhost") == []


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"groups": {"a": STAFF, "b": STAFF}}, "user 'ann' is also in group a"),
        ({"groups": {"a": {"remoteHosts": "10.*"}}}, "groups.a: remoteHosts: '10.*': * must stand alone, or for"),
        ({"groups": {"a": {"remoteHosts": "10.1.0.0/8"}}}, "bits beyond the length of its prefix; write 10.0.0.0/8"),
        ({"groups": {"a": {"remoteHosts": "unknown"}}}, "groups.a: remoteHosts: cannot resolve unknown"),
        ({"groups": {"a": {"sources": "a.*.b"}}}, "groups.a.sources: 'a.*.b': * is only allowed at the end"),
        ({"groups": {"a": {"sources": "a", "sourcePattern": "b"}}}, "sources and sourcePattern exclude each other"),
        ({"groups": {"a": {"colour": "red"}}}, "groups.a.colour: no such attribute"),
        ({"allowUnknownUser": True}, "needs a group $default"),
        ({"aliases": "other"}, "'other' is already a name of other"),
        ({"maxConnections": -1}, "must be at least 0"),
    ],
)
def test_a_change_that_cannot_be_enforced_is_refused_and_changes_nothing(
    router: StubRouter, manager: Manager, attributes: dict[str, Any], text: str
) -> None:
    enable(manager)
    assert create(manager, "other")[0] == 201
    assert create(manager, "v", groups={"staff": STAFF})[0] == 201
    before, rows = router.policy.policy, manager.rows("vhost")
    for status, told, _ in (create(manager, "w", **attributes), change(manager, "v", **attributes)):
        assert status == 400
        assert text in told
    assert router.policy.policy is before
    assert manager.rows("vhost") == rows
    assert allowed(router, "ann", "v")


def test_a_second_vhost_of_the_name_is_a_conflict(manager: Manager) -> None:
    assert create(manager, "v")[0] == 201
    assert create(manager, "v")[0] == 409


@pytest.mark.parametrize(
    ("change", "closed", "told"), [({}, [], "left out"), ({"aliases": "w"}, ["w"], "denies all its clients")]
)
def test_an_operators_vhost_with_the_alias_of_another_as_its_name_gives_nothing_to_anybody(
    router: StubRouter, manager: Manager, change: dict[str, Any], closed: list[str], told: str
) -> None:
    """Clients of the name have the policy of the older vhost: neither that of the younger nor of the default one."""
    enable(manager)
    for hostname, user, more in (("old", "ann", {"aliases": "v"}), ("$default", "cid", {})):
        assert create(manager, hostname, groups={"g": {**ALL, "users": user}}, **more)[0] == 201
    status, text, _ = create(manager, "v", name="k8s/ns/v", groups={"g": {**ALL, "users": "bob"}}, **change)
    assert (status, "'v' is already a name of old" in text) == (400, True)
    assert [user for user in ("ann", "bob", "cid") if allowed(router, user, "v")] == ["ann"]
    assert sorted(row["hostname"] for row in manager.rows("vhost")) == ["$default", "old", *closed]
    assert not any(allowed(router, user, name) for user in ("ann", "bob", "cid") for name in closed)
    assert any(f"vhost k8s/ns/v {told}: " in line[2] for line in router.lines), router.lines


def test_the_policy_can_be_changed_but_not_its_folder(router: StubRouter, manager: Manager) -> None:
    enable(manager, maxConnections=7, maxMessageSize=100, defaultVhost="v")
    assert create(manager, "v", groups={"staff": STAFF})[0] == 201
    assert router.policy.policy.max_connections == 7
    assert router.policy.policy.max_message_size == 100
    assert allowed(router, "ann", "any")
    status, text, _ = manager.ask("UPDATE", {"policyDir": "/etc"}, type="policy")
    assert (status, "cannot be updated" in text) == (400, True)
    for operation in ("CREATE", "DELETE"):
        assert manager.ask(operation, {}, type="policy")[0] == 405


def test_a_default_vhost_that_does_not_exist_denies(router: StubRouter, manager: Manager) -> None:
    """Dispatch book 3.6.3: both an empty name and a missing vhost disable it."""
    create(manager, "v", groups={"staff": STAFF})
    for name in ("missing", ""):
        enable(manager, defaultVhost=name)
        assert not allowed(router, "ann", "any")
        assert allowed(router, "ann", "v")


def test_host_names_become_patterns_when_that_is_switched_on(router: StubRouter, manager: Manager) -> None:
    enable(manager)
    create(manager, "*.example.com", groups={"staff": STAFF})
    assert not allowed(router, "ann", "a.example.com")
    enable(manager, enableVhostNamePatterns=True)
    assert allowed(router, "ann", "a.example.com")
    status, text, _ = create(manager, "*/example/com")
    assert (status, "another vhost has the pattern" in text) == (500, True)


def test_a_deleted_policy_of_a_vhost_in_use_keeps_its_counts(router: StubRouter, manager: Manager) -> None:
    create(manager, "v", groups={"staff": STAFF})
    router.policy.counts.vhosts["v"] = VhostCounts(connections_approved=3)
    router.policy.open.vhosts["v"] = 1
    assert manager.ask("DELETE", type="vhost", name="vhost/v")[0] == 204
    (row,) = manager.rows("vhostStats", "hostname", "connectionsApproved", "connectionsCurrent")
    assert tuple(row.values()) == ("v", 3, 1)


def test_statistics_of_vhosts_and_groups(router: StubRouter, manager: Manager) -> None:
    create(manager, "v", aliases="w", groups={"staff": STAFF, "idle": {}})
    denials = Denials(sessions=1, senders=2, receivers=3, dynamic_sources=4, anonymous_senders=5, links=14)
    counts = VhostCounts(9, 8, Denials(sessions=1, senders=2, receivers=3, message_sizes=6), {"staff": denials})
    router.policy.counts.vhosts["v"] = counts
    router.policy.open.vhosts["v"] = 2
    router.policy.open.users.update(Counter({("v", "ann"): 2, ("x", "ann"): 1, ("v", "bob"): 0}))
    router.policy.open.hosts.update(Counter({("v", "10.0.0.1"): 2}))
    (row,) = manager.rows("vhostStats")
    assert row["identity"] == "vhostStats/v"
    assert (row["connectionsApproved"], row["connectionsDenied"], row["connectionsCurrent"]) == (9, 8, 2)
    assert (row["perUserState"], row["perHostState"]) == ({"ann": 2}, {"10.0.0.1": 2})
    assert [row[f"{kind}Denied"] for kind in ("session", "sender", "receiver", "maxMessageSize")] == [1, 2, 3, 6]
    groups = {row["groupName"]: row for row in manager.rows("vhostUserGroupStats")}
    assert set(groups) == {"staff", "idle"}
    assert (groups["staff"]["linksDenied"], groups["staff"]["dynamicSourceDenied"]) == (14, 4)
    assert (groups["idle"]["linksDenied"], groups["idle"]["hostname"]) == (0, "v")


def test_counts_of_the_policy_row(router: StubRouter, manager: Manager) -> None:
    counts = router.policy.counts
    counts.connections_processed, counts.connections_denied, counts.links_denied, counts.total_denials = 9, 2, 3, 6
    counts.sizes_denied = 1
    router.policy.open.total = 5
    router.core.denied["management"] = 10
    (row,) = manager.rows("policy")
    assert [row[f"connections{name}"] for name in ("Processed", "Denied", "Current")] == [9, 2, 5]
    assert (row["linksDenied"], row["maxMessageSizeDenied"], row["totalDenials"]) == (3, 1, 16)


def test_user_group_settings_have_no_rows_of_their_own(manager: Manager) -> None:
    create(manager, "v", groups={"staff": STAFF})
    assert manager.rows("vhostUserGroupSettings") == []
    assert manager.ask("CREATE", {"users": "ann"}, type="vhostUserGroupSettings")[0] == 405
