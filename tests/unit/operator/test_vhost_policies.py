"""VhostPolicy and policy of a Router: what the CRDs refuse, the entities made of them, and the way of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.operator.test_manifest_refusals import CRDS, ROUTER_REF, refused
from tests.unit.operator.test_operator_status import CONTEXT, NOW, ROUTER, conditions, fits, seen
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.local.desired import LocalContext, RouterAddresses, desired_local
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.mesh import render
from waymesh_operator.planning.status.dependents import vhost_policy_status
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.router import Policy, Ref, Router, RouterTls
from waymesh_operator.resources.validation import check
from waymesh_operator.resources.vhost_policy import UserGroup, VhostPolicy
from waymesh_operator.router_entities.actions import (
    CreateEntity,
    DeleteEntity,
    UpdateEntity,
    changed_attributes,
    plan_entities,
)
from waymesh_operator.router_entities.names import LISTENER, POLICY, VHOST, Entity
from waymesh_operator.router_entities.policies import MANAGEMENT_VHOST, policy_entity, vhost_entity
from waymesh_operator.routers.observed import RouterState, VhostCounts
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.decide import Allowed, Denied, Request, decide_connection, sources_of, targets_of
from waymesh_router.policy.statistics import OpenConnections
from waymesh_router.policy.vhosts import parse_policy
from waymesh_schema.entities import entity_type
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent

MESH = Ref("ns", "mesh")
EXAMPLE = (Path(__file__).parents[3] / "examples/tenants.yaml").read_text(encoding="utf-8")
GROUP = {"name": "g", "users": ["u"], "remoteHosts": ["*"], "sources": ["a"], "targets": ["b"]}
ENABLED = replace(ROUTER, policy=Policy(enabled=True))


def spec(*groups: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"routerRef": ROUTER_REF, "hostname": "acme.example", "groups": list(groups), **fields}


def parsed(text: str) -> Resources:
    (resources,) = check(parse_text(text, "m.yaml")[0], CRDS).meshes.values()
    return resources


# ---- what the CRDs refuse
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (spec({**GROUP, "sourcePatterns": ["a.#"]}),
         "spec.groups[0].sourcePatterns: sources and sourcePatterns exclude each other"),
        (spec({**GROUP, "targetPatterns": ["a.#"]}),
         "spec.groups[0].targetPatterns: targets and targetPatterns exclude each other"),
        (spec(GROUP, {"name": "h", "users": ["v", "u"]}), "spec.groups: a user may be in one group only"),
        (spec(GROUP, allowUnknownUser=True), "spec.allowUnknownUser: allowUnknownUser needs a group $default"),
        (spec({**GROUP, "sources": ["a*b"]}),
         "spec.groups[0].sources[0]: * is only allowed at the end; use sourcePatterns to allow it elsewhere"),
        (spec({**GROUP, "targets": ["**"]}),
         "spec.groups[0].targets[0]: * is only allowed at the end; use targetPatterns to allow it elsewhere"),
        (spec({**GROUP, "remoteHosts": ["10.0.0.0/eight"]}),
         "spec.groups[0].remoteHosts[0]: not a network, such as 10.0.0.0/8"),
        (spec({**GROUP, "remoteHosts": ["10.0.*"]}),
         "spec.groups[0].remoteHosts[0]: * must stand alone, or for the last of four words of an address "
         "(192.168.1.*)"),
        (spec({**GROUP, "users": ["*"]}),
         "spec.groups[0].users[0]: * is not a user; for users without a group set allowUnknownUser and create a group "
         "$default"),
        (spec({**GROUP, "users": ["u,v"]}), "spec.groups[0].users[0]: must not have a comma"),
        (spec({**GROUP, "sources": ["a,b"]}), "spec.groups[0].sources[0]: must not have a comma"),
        (spec({**GROUP, "users": ["u", "u"]}), "spec.groups[0].users[1]: 'u' duplicates item [0]"),
        (spec(GROUP, GROUP), "spec.groups[1].name: 'g' duplicates item [0]"),
        (spec({**GROUP, "maxFrameSize": 100}), "spec.groups[0].maxFrameSize: must be at least 512, or 0"),
        (spec({**GROUP, "maxSessions": 70000}),
         "spec.groups[0].maxSessions: must be between 0 and 65536 (got 70000)"),
        (spec(maxConnections=-1), "spec.maxConnections: must be between 0 and 2147483647 (got -1)"),
        (spec(aliases=["acme.example"]), "spec.aliases: hostname must not be one of the aliases"),
    ],
)  # fmt: skip
def test_what_no_router_could_enforce_is_refused(fields: dict[str, Any], error: str) -> None:
    assert error in refused("VhostPolicy", fields)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (spec(connectionRate="60"), "spec.connectionRate"),
        (spec(connectionRatePerUser="1/86401"), "spec.connectionRatePerUser"),
        (spec(userConnectionRates={"u": "0/1"}), "spec.userConnectionRates"),
        (spec(userConnectionRates={"": "1/1"}), "spec.userConnectionRates: user names must have"),
        (spec(userConnectionRates={"*": "1/1"}), "spec.userConnectionRates: user names must have"),
        (spec(userConnectionRates={"u": "1/1"}, blockedUsers=["u"]),
         "spec.userConnectionRates: a user cannot be in both userConnectionRates and blockedUsers"),
        (spec(blockedUsers=["*"]), "spec.blockedUsers[0]: * is not a user"),
        (spec({**GROUP, "connectionRatePerHost": "often"}), "spec.groups[0].connectionRatePerHost"),
        (spec(warnAtPercent=101), "spec.warnAtPercent: must be between 0 and 100"),
    ],
)  # fmt: skip
def test_limits_that_no_router_could_enforce_are_refused(fields: dict[str, Any], error: str) -> None:
    (told,) = refused("VhostPolicy", fields)
    assert told.startswith(error)


@pytest.mark.parametrize("name", ["$management", "", "a b", "a,b", "$Default"])
def test_names_that_are_kept_or_cannot_be_listed_are_refused(name: str) -> None:
    assert refused("VhostPolicy", spec(hostname=name)) or not name
    assert refused("VhostPolicy", spec(aliases=[name]))
    assert refused("Router", {"policy": {"defaultVhost": name}}) or not name


@pytest.mark.parametrize(
    "fields",
    [
        spec(),
        spec(GROUP, hostname="$default", aliases=["a.example", "*.b.example", "c:5672"]),
        spec({"name": "$default", "sources": ["${user}.*"]}, {**GROUP, "maxFrameSize": 0}, allowUnknownUser=True),
        spec({"name": "g", "users": ["CN=worker"], "sourcePatterns": ["a.*.b.#"], "targetPatterns": ["#"]}),
        spec({**GROUP, "remoteHosts": ["10.0.0.1-10.0.0.9", "::1", "10.0.0.0/8", "192.168.*.*", "host.example"]}),
        spec({**GROUP, "connectionRatePerUser": "none", "blocked": True}, connectionRate="60/86400", dryRun=True,
             userConnectionRates={"CN=worker": "1/1", "b": "none"}, blockedUsers=["c"], warnAtPercent=80),
    ],
)
def test_what_routers_take_is_accepted_and_taken_by_the_table(fields: dict[str, Any]) -> None:
    assert refused("VhostPolicy", fields) == []


def test_of_two_manifests_with_a_host_name_in_common_the_second_is_refused() -> None:
    text = EXAMPLE.replace("hostname: globex.example", "hostname: globex.example\n  aliases: [acme.example]")
    documents, _ = parse_text(text, "m.yaml")
    with pytest.raises(Exception, match=r"spec\.aliases: acme\.example is already used by VhostPolicy/acme"):
        check(documents, CRDS)


# ---- entities
def policies() -> list[VhostPolicy]:
    found = list(parsed(EXAMPLE).vhost_policies)
    settings = (("users", "u"), ("sourcePattern", "a.#"), ("maxMessageSize", 5), ("maxSenders", None))
    group = UserGroup("$default", settings)
    rates = VhostPolicy(
        Ref("ns", "y"), MESH, "r", connection_rate="1/2", user_connection_rates=(("u", "none"),),
        blocked_users=("v", "w"), warn_at_percent=80, dry_run=True,
    )  # fmt: skip
    return [*found, rates, VhostPolicy(Ref("ns", "x"), MESH, "h", ("i", "j"), 1, 2, 3, 4, True, (group,))]


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy.ref.name)
def test_a_vhost_is_taken_by_the_table_and_then_does_not_differ(policy: VhostPolicy) -> None:
    entity = vhost_entity(policy)
    given = {name: value for name, value in entity.attributes.items() if value is not None}
    live = validate_create(entity_type(VHOST), {**given, "name": entity.name})
    assert changed_attributes(entity, Entity(VHOST, entity.name, live)) == {}


def test_each_setting_of_the_table_is_a_field_of_the_resource() -> None:
    fields = CRDS["VhostPolicy"].schema["properties"]["spec"]["properties"]
    renamed = {
        "sourcePattern": "sourcePatterns",
        "targetPattern": "targetPatterns",
        "linkRoutePattern": "linkRoutePatterns",
    }
    for kind, there in ((VHOST, fields), ("vhostUserGroupSettings", fields["groups"]["items"]["properties"])):
        for name, setting in entity_type(kind).attributes.items():
            if setting.create and not setting.deprecated and name not in {"name", "identity", "type"}:
                field = there[renamed.get(name, name)]
                if name != "groups" and setting.default not in ("", None):
                    assert field.get("default") == setting.default, name
                if setting.maximum is not None:
                    assert field["maximum"] == setting.maximum, name


def test_every_change_of_a_vhost_but_of_its_host_name_is_an_update() -> None:
    (before, *_), name = policies(), "k8s/default/VhostPolicy/acme"
    live = Entity(VHOST, name, vhost_entity(before).attributes)
    for change in (
        {"aliases": ("a",)}, {"max_connections": 1}, {"max_message_size": None}, {"allow_unknown_user": True},
        {"groups": before.groups[:1]}, {"groups": ()},
    ):  # fmt: skip
        (action,) = plan_entities("mesh-0", [vhost_entity(replace(before, **change))], [live])
        assert isinstance(action, UpdateEntity), change
    create, delete = plan_entities("mesh-0", [vhost_entity(replace(before, hostname="other.example"))], [live])
    assert isinstance(create, CreateEntity)
    assert isinstance(delete, DeleteEntity)


def test_a_policy_that_is_removed_from_the_manifest_is_reset_on_running_routers() -> None:
    live = Entity(POLICY, "policy/0", policy_entity(Policy(True, "x", 1, 2, True)).attributes)
    (action,) = plan_entities("mesh-0", [policy_entity(Policy())], [live])
    assert isinstance(action, UpdateEntity)
    assert action.changes["enableVhostPolicy"] == (True, False)
    assert plan_entities("mesh-0", [policy_entity(Policy())], []) == [], "a router without policies is not asked"


def test_a_seed_has_a_policy_only_if_one_is_asked_for() -> None:
    assert "policy" not in render([policy_entity(Policy())])
    assert '"enableVhostPolicy": true' in render([policy_entity(Policy(enabled=True))])


# ---- conflicts
def test_of_two_policies_with_a_host_name_in_common_the_older_acts() -> None:
    old = VhostPolicy(Ref("ns", "b"), MESH, "x", ("y",), created="2026-01-01T00:00:00Z")
    new = VhostPolicy(Ref("ns", "a"), MESH, "z", ("y",), created="2026-01-02T00:00:00Z")
    desired = desired_cluster(Resources(ENABLED, vhost_policies=(new, old)), CONTEXT)
    verdict = desired.verdicts["VhostPolicy", new.ref]
    assert (verdict.good, verdict.reason) == (False, "Conflicted")
    assert verdict.message == (
        "VhostPolicy ns/b is older and already has one of its host names: x, y; meanwhile its other host names allow "
        "no client: z"
    )
    assert [e.name for e in desired.mesh.routers[0].entities if e.type == VHOST] == [
        "k8s/ns/Router/mesh/management", "k8s/ns/VhostPolicy/b", "k8s/ns/VhostPolicy/a",
    ]  # fmt: skip


def everybody(name: str, hostname: str, *aliases: str, created: int, group: str = "$default") -> VhostPolicy:
    """A VhostPolicy that allows everybody; the group tells whose verdict it is."""
    targets = "$management,_topo/*/*/$management"
    settings = (("remoteHosts", "*"), ("targetPattern", targets), ("allowDynamicSource", True))
    groups = (UserGroup(group, (*settings, ("users", "u"))),)
    return VhostPolicy(Ref("ns", name), MESH, hostname, aliases, groups=groups, created=f"2026-01-0{created}T00:00:00Z")


def test_a_policy_in_conflict_neither_takes_a_name_nor_leaves_its_own_to_a_wider_policy() -> None:
    """Each name: the group that decides, None for nobody."""
    wide = everybody("wide", "$default", created=1, group="wide")
    old = everybody("old", "x", "y", created=2, group="old")
    late = everybody("late", "y", "z", created=3, group="late")
    later = everybody("later", "w", "z", "x", created=4, group="later")
    swallowed = everybody("swallowed", "y", created=5, group="swallowed")
    desired = desired_cluster(Resources(ENABLED, vhost_policies=(swallowed, later, late, old, wide)), CONTEXT)

    def group(hostname: str) -> str | None:
        verdict = judge(desired, "u", "10.0.0.1", hostname)
        return verdict.group.name if isinstance(verdict, Allowed) and verdict.group is not None else None

    found = {name: group(name) for name in ("x", "y", "z", "w", "other")}
    assert found == {"x": "old", "y": "old", "z": None, "w": None, "other": "wide"}
    told = {ref.name: verdict.message for (_, ref), verdict in desired.verdicts.items() if verdict.conflicted}
    assert {name: text.partition("; ")[2].rpartition(": ")[2] for name, text in told.items()} == {
        "late": "z", "later": "w", "swallowed": "",
    }  # fmt: skip


# ---- the operator is not locked out
def judge(desired: DesiredState, user: str, host: str, vhost: str) -> Allowed | Denied:
    """What a router with these entities answers to an open."""
    entities = desired.mesh.routers[0].entities
    (policy,) = (e.attributes for e in entities if e.type == POLICY)
    vhosts = [
        {name: value for name, value in e.attributes.items() if value is not None}
        for e in entities
        if e.type == VHOST
    ]
    made = parse_policy(policy, vhosts, PatternTree[str], lambda name: ["10.0.0.1"])
    verdict = decide_connection(made, Request(user, host, vhost), OpenConnections(), 0.0)
    if isinstance(verdict, Allowed) and verdict.group is not None:
        assert targets_of(made, verdict.group, user).allow("$management")
        assert targets_of(made, verdict.group, user).allow("_topo/0/mesh-1/$management")
        assert not targets_of(made, verdict.group, user).allow("orders")
        assert not sources_of(made, verdict.group, user).allow("orders")
        assert verdict.group.allow_dynamic_source
    return verdict


def listeners(desired: DesiredState) -> dict[str, str | None]:
    """policyVhost by the last part of the listener's name."""
    entities = desired.mesh.routers[0].entities
    return {e.name.rpartition("/")[2]: e.attributes.get("policyVhost") for e in entities if e.type == LISTENER}


@pytest.mark.parametrize("settings", [Policy(True), Policy(True, "", 5), Policy(True, "#", hostname_patterns=True)])
def test_an_enabled_policy_lets_the_operator_manage_and_nobody_else(settings: Policy) -> None:
    every = VhostPolicy(Ref("ns", "x"), MESH, "#", groups=(UserGroup("g", (("users", "x"),)),))
    for others in ((), (every,)):
        router = replace(ROUTER, policy=settings)
        desired = desired_cluster(Resources(router, vhost_policies=others), CONTEXT)
        vhosts = listeners(desired)
        assert vhosts.pop("management") == vhosts.pop("local") == MANAGEMENT_VHOST
        assert set(vhosts.values()) == {None}, "clients name theirs"
        assert isinstance(judge(desired, "CN=waymesh-operator", "10.1.2.3", MANAGEMENT_VHOST), Allowed)
        assert isinstance(judge(desired, "anonymous", "127.0.0.1", MANAGEMENT_VHOST), Allowed)
        for user, host in (("anonymous", "10.1.2.3"), ("CN=worker", "10.1.2.3"), ("alice", "127.0.0.1")):
            assert isinstance(judge(desired, user, host, MANAGEMENT_VHOST), Denied), (user, host)


def test_the_subject_that_an_issuer_of_the_users_own_writes_does_not_lock_the_operator_out() -> None:
    tls = RouterTls("CertManager", issuer_ref=("corp", "ClusterIssuer", "cert-manager.io"))
    context = replace(CONTEXT, tls=None, cert_manager=True)
    desired = desired_cluster(Resources(replace(ENABLED, tls=tls)), context)
    assert isinstance(judge(desired, "O=Example,CN=waymesh-operator", "10.1.2.3", MANAGEMENT_VHOST), Allowed)


def test_listeners_of_tenants_have_their_vhost_and_clients_never_write() -> None:
    fixed = Listener("fixed", 7000, tenants=True, vhost="acme.example", management="read")
    listeners = (fixed, Listener("any", 7001, tenants=True, alias_spaces=True), Listener("plain", 7002))
    router = replace(ENABLED, listeners=listeners)
    (made,) = (one.entities for one in desired_cluster(Resources(router), CONTEXT).mesh.routers[:1])
    found = {e.name.rpartition("/")[2]: e.attributes for e in made if e.type == LISTENER}
    attributes, names = ("multiTenant", "policyVhost", "management", "aliasSpaces"), ("fixed", "any", "plain")
    chosen = [[found[name].get(attribute) for attribute in attributes] for name in names]
    assert chosen == [[True, "acme.example", "read", None], [True, None, "none", True], [None, None, "none", None]]
    for name in names:
        validate_create(entity_type(LISTENER), {k: v for k, v in found[name].items() if v is not None})


def test_the_right_of_a_group_reaches_the_routers() -> None:
    text = EXAMPLE.replace("    maxConnectionsPerUser: 2\n", "    management: none\n")
    (mesh,) = check(parse_text(text, "m.yaml")[0], load_crds()).meshes.values()
    groups = vhost_entity(next(one for one in mesh.vhost_policies if one.ref.name == "acme")).attributes["groups"]
    assert groups["readers"]["management"] == "none"
    assert "management" not in groups["apps"], "routers of older images do not know it"


def test_a_mesh_without_policy_has_no_vhost_and_listeners_as_before() -> None:
    desired = desired_cluster(Resources(ROUTER), CONTEXT)
    assert set(listeners(desired).values()) == {None}
    assert not [e for e in desired.mesh.routers[0].entities if e.type == VHOST]


def test_in_local_mode_the_commands_on_this_machine_may_manage() -> None:
    router = Router(Ref("default", "mesh"), policy=Policy(enabled=True))
    place = RouterAddresses("127.0.0.1", "127.0.0.1", 1, 2, {})
    desired = desired_local(Resources(router), LocalContext([place]))
    assert listeners(desired)["management"] == MANAGEMENT_VHOST
    assert isinstance(judge(desired, "anonymous", "127.0.0.1", MANAGEMENT_VHOST), Allowed)
    assert isinstance(judge(desired, "anonymous", "127.0.0.1", "acme.example"), Denied)


def test_the_vhost_of_the_management_is_there_before_its_listeners_and_goes_after_them() -> None:
    without = desired_cluster(Resources(ROUTER), CONTEXT).mesh.routers[0].entities
    enabled = desired_cluster(Resources(ENABLED), CONTEXT).mesh.routers[0].entities
    steps = [(type(a).__name__, a.entity.type) for a in plan_entities("mesh-0", enabled, without)]
    assert steps == [("CreateEntity", VHOST), *[("UpdateEntity", LISTENER)] * 2, ("UpdateEntity", POLICY)]
    steps = [(type(a).__name__, a.entity.type) for a in plan_entities("mesh-0", without, enabled)]
    assert steps == [("UpdateEntity", POLICY), *[("UpdateEntity", LISTENER)] * 2, ("DeleteEntity", VHOST)]


# ---- status
POLICY_OF_X = VhostPolicy(Ref("ns", "x"), MESH, "x", groups=(UserGroup("g"), UserGroup("h")), generation=3)


def test_the_status_tells_routers_connections_and_refusals() -> None:
    counts = VhostCounts()
    counts.connections.update(x=4, y=9)
    counts.refused.update(x=2, y=9)
    counts.dry_run.update(x=6, y=9)
    counts.denied.update({("x", "g"): 5, ("y", "g"): 9})
    mesh = seen(Resources(ENABLED, vhost_policies=(POLICY_OF_X,)), vhosts=counts)
    status = vhost_policy_status(POLICY_OF_X, mesh, {}, NOW)
    assert fits("VhostPolicy", status)
    assert (status["active"], status["connections"], status["denied"]) == ("3/3", 4, 7)
    assert status["dryRunDenials"] == 6
    assert status["groups"] == [{"name": "g", "denied": 5}, {"name": "h", "denied": 0}]
    assert status["observedGeneration"] == 3
    assert {kind: holds for kind, (holds, _, _) in conditions(status).items()} == dict.fromkeys(
        ("Accepted", "ResolvedRefs", "Programmed", "Ready"), "True"
    )


def test_a_policy_that_the_router_does_not_enforce_says_so() -> None:
    status = vhost_policy_status(POLICY_OF_X, seen(Resources(ROUTER, vhost_policies=(POLICY_OF_X,))), {}, NOW)
    assert conditions(status)["Programmed"][0] == "True"
    message = "mesh-0: not enforced: set policy.enabled of the Router"
    assert conditions(status)["Ready"] == ("False", "NotActive", message)
    assert status["active"] == "0/3"


@pytest.mark.parametrize("mesh", ["no router", "lost"])
def test_a_policy_without_its_routers_is_not_ready(mesh: str) -> None:
    resources = Resources(ENABLED, vhost_policies=(POLICY_OF_X,))
    there = None if mesh == "no router" else seen(resources, states={"mesh-1": RouterState.STARTING})
    status = vhost_policy_status(POLICY_OF_X, there, {}, datetime.now(UTC))
    assert fits("VhostPolicy", status)
    assert conditions(status)["Programmed"][1] == ("RouterMissing" if there is None else "RouterLost")
    assert conditions(status)["Ready"][0] == "False"
