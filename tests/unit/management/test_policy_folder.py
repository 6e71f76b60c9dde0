"""What a change of the files in policyDir does to the vhosts of a running router."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.management.stub_router import Manager, StubRouter
from waymesh_router.management.policy_folder import PolicyFolder, Vhosts, vhosts_of
from waymesh_router.policy.decide import Allowed, Request, decide_connection
from waymesh_router.policy.statistics import OpenConnections
from waymesh_schema.config import parse_json

pytestmark = pytest.mark.engine_independent
ANN = {"staff": {"users": "ann", "remoteHosts": "*"}}
BOB = {"staff": {"users": "bob", "remoteHosts": "*"}}


def of_files(*vhosts: dict[str, Any]) -> Vhosts:
    return vhosts_of(parse_json(json.dumps([["vhost", vhost] for vhost in vhosts]), "vhosts.json"))


@pytest.fixture
def router() -> StubRouter:
    return StubRouter()


@pytest.fixture
def manager(router: StubRouter) -> Manager:
    manager = Manager(router)
    status, text, _ = manager.ask("UPDATE", {"enableVhostPolicy": True, "defaultVhost": ""}, type="policy")
    assert status == 200, text
    return manager


@pytest.fixture
def folder(manager: Manager) -> PolicyFolder:
    return PolicyFolder(manager.agent, {})


def allowed(router: StubRouter, user: str, hostname: str) -> bool:
    policy = router.policy.policy
    return isinstance(decide_connection(policy, Request(user, "10.1.1.1", hostname), OpenConnections(), 0.0), Allowed)


def names(manager: Manager) -> set[str]:
    return {row["hostname"] for row in manager.rows("vhost")}


def test_vhosts_are_created_updated_and_deleted(router: StubRouter, manager: Manager, folder: PolicyFolder) -> None:
    lines = folder.apply(of_files({"hostname": "a", "groups": ANN}, {"hostname": "b", "groups": ANN}))
    assert lines == [("notice", "policyDir: vhost a created"), ("notice", "policyDir: vhost b created")]
    assert allowed(router, "ann", "a")
    lines = folder.apply(of_files({"hostname": "b", "groups": BOB}))
    assert lines == [("notice", "policyDir: vhost a deleted"), ("notice", "policyDir: vhost b updated")]
    assert names(manager) == {"b"}
    assert (allowed(router, "ann", "b"), allowed(router, "bob", "b")) == (False, True)


def test_without_a_change_nothing_happens(folder: PolicyFolder) -> None:
    vhosts = of_files({"hostname": "a", "groups": ANN})
    folder.apply(vhosts)
    assert folder.changed(vhosts) == {}
    assert folder.apply(vhosts) == []


def test_vhosts_from_elsewhere_are_left_alone(manager: Manager, folder: PolicyFolder) -> None:
    assert manager.ask("CREATE", {"hostname": "other", "groups": ANN}, type="vhost")[0] == 201
    folder.apply(of_files({"hostname": "a", "groups": ANN}))
    folder.apply({})
    assert names(manager) == {"other"}


def test_what_management_changed_stays_until_the_file_changes(
    router: StubRouter, manager: Manager, folder: PolicyFolder
) -> None:
    vhosts = of_files({"hostname": "a", "groups": ANN})
    folder.apply(vhosts)
    assert manager.ask("UPDATE", {"groups": BOB}, type="vhost", identity="vhost/a")[0] == 200
    assert folder.apply(vhosts) == []
    assert allowed(router, "bob", "a")
    folder.apply(of_files({"hostname": "a", "groups": ANN, "maxConnections": 5}))
    assert (allowed(router, "ann", "a"), allowed(router, "bob", "a")) == (True, False)


def test_a_vhost_that_management_deleted_is_created_when_its_file_changes(
    manager: Manager, folder: PolicyFolder
) -> None:
    folder.apply(of_files({"hostname": "a", "groups": ANN}))
    assert manager.ask("DELETE", type="vhost", identity="vhost/a")[0] == 204
    assert folder.apply(of_files({"hostname": "a", "groups": BOB})) == [("notice", "policyDir: vhost a created")]
    assert manager.ask("DELETE", type="vhost", identity="vhost/a")[0] == 204
    assert folder.apply({}) == []


def test_a_vhost_that_cannot_be_updated_keeps_its_settings(router: StubRouter, folder: PolicyFolder) -> None:
    folder.apply(of_files({"hostname": "a", "groups": ANN}))
    wrong = {"staff": {"users": "bob", "remoteHosts": "10.0.0.9-10.0.0.1"}}
    ((level, text),) = folder.apply(of_files({"hostname": "a", "groups": wrong}))
    assert level == "error"
    assert text.startswith("policyDir: vhost a: ")
    assert text.endswith("; its former settings stay in force")
    assert (allowed(router, "ann", "a"), allowed(router, "bob", "a")) == (True, False)


def test_a_vhost_that_cannot_be_created_denies_until_it_is_corrected(
    router: StubRouter, manager: Manager, folder: PolicyFolder
) -> None:
    assert manager.ask("UPDATE", {"defaultVhost": "$default"}, type="policy")[0] == 200
    folder.apply(of_files({"hostname": "$default", "groups": ANN}))
    default = {"hostname": "$default", "groups": ANN}
    wrong = {"staff": {"users": "ann", "remoteHosts": "10.0.0.9-10.0.0.1"}}
    assert allowed(router, "ann", "a")
    ((level, text),) = folder.apply(of_files(default, {"hostname": "a", "groups": wrong}))
    assert (level, text.endswith("; clients of its names that no other vhost has are denied")) == ("error", True)
    assert not allowed(router, "ann", "a")
    folder.apply(of_files(default, {"hostname": "a", "groups": ANN}))
    assert allowed(router, "ann", "a")


def test_a_vhost_that_could_not_be_created_can_be_removed(manager: Manager, folder: PolicyFolder) -> None:
    wrong = {"staff": {"users": "ann", "remoteHosts": "10.0.0.9-10.0.0.1"}}
    folder.apply(of_files({"hostname": "a", "groups": wrong}))
    assert folder.apply({}) == [("notice", "policyDir: vhost a deleted")]
    assert names(manager) == set()


def test_an_alias_moves_from_one_vhost_to_another(router: StubRouter, folder: PolicyFolder) -> None:
    folder.apply(of_files({"hostname": "a", "groups": ANN}, {"hostname": "b", "aliases": "x", "groups": BOB}))
    with_alias = {"hostname": "a", "aliases": "x", "groups": ANN}
    lines = folder.apply(of_files(with_alias, {"hostname": "b", "groups": BOB}))
    assert {level for level, _ in lines} == {"notice"}
    assert (allowed(router, "ann", "x"), allowed(router, "bob", "x")) == (True, False)


def test_a_host_name_of_a_vhost_from_elsewhere_is_refused(
    router: StubRouter, manager: Manager, folder: PolicyFolder
) -> None:
    assert manager.ask("CREATE", {"hostname": "other", "aliases": "a", "groups": ANN}, type="vhost")[0] == 201
    ((level, text),) = folder.apply(of_files({"hostname": "a", "groups": BOB}))
    assert (level, text.endswith("; it is not created")) == ("error", True)
    assert (allowed(router, "ann", "a"), allowed(router, "bob", "a")) == (True, False)


@pytest.mark.parametrize("name", [{"hostname": "other", "aliases": "a"}, {"hostname": "a"}])
def test_other_names_of_a_vhost_whose_host_name_is_taken_deny_all(
    router: StubRouter, manager: Manager, folder: PolicyFolder, name: dict[str, str]
) -> None:
    assert manager.ask("UPDATE", {"defaultVhost": "$default"}, type="policy")[0] == 200
    assert manager.ask("CREATE", {"hostname": "$default", "groups": ANN}, type="vhost")[0] == 201
    assert manager.ask("CREATE", {**name, "groups": ANN}, type="vhost")[0] == 201
    conflict = {"hostname": "a", "aliases": "x,y", "groups": BOB}
    ((level, text),) = folder.apply(of_files(conflict))
    assert (level, text.endswith("; clients of its names that no other vhost has are denied")) == ("error", True)
    for hostname, expected in (("a", (True, False)), ("x", (False, False)), ("y", (False, False))):
        assert (allowed(router, "ann", hostname), allowed(router, "bob", hostname)) == expected
    taken = names(manager)
    ((level, _),) = folder.apply(of_files({**conflict, "maxConnections": 5}))
    assert (level, names(manager)) == ("error", taken)
    assert not allowed(router, "ann", "x")
    assert manager.ask("DELETE", type="vhost", identity=f"vhost/{name['hostname']}")[0] == 204
    assert folder.apply(of_files(conflict)) == [("notice", "policyDir: vhost a created")]
    for hostname in ("a", "x", "y"):
        assert (allowed(router, "ann", hostname), allowed(router, "bob", hostname)) == (False, True)


def test_the_stand_in_goes_when_its_file_goes(router: StubRouter, manager: Manager, folder: PolicyFolder) -> None:
    assert manager.ask("CREATE", {"hostname": "a", "groups": ANN}, type="vhost")[0] == 201
    folder.apply(of_files({"hostname": "a", "aliases": "x", "groups": BOB}))
    assert names(manager) == {"a", "x"}
    assert folder.apply({}) == [("notice", "policyDir: vhost a deleted")]
    assert names(manager) == {"a"}
    assert allowed(router, "ann", "a")
