"""What the definitions accept although it cannot work is told by a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.operator.test_operator_objects import MESH, ROUTER, desire
from tests.unit.operator.test_operator_status import ALL, NOW, ROUTE, conditions, seen
from waymesh_operator.planning.status.dependents import linkroute_status
from waymesh_operator.resources.dependents import Address, LinkRoute
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import S3, Ref, Telemetry
from waymesh_operator.resources.vhost_policy import UserGroup, VhostPolicy
from waymesh_operator.router_entities.verdicts import GOOD, judge_router, judge_telemetry
from waymesh_operator.router_entities.without_effect import unusable_endpoint

pytestmark = pytest.mark.engine_independent

X = Ref("ns", "x")


@pytest.mark.parametrize("match", ["$management", "/$management", "_local", "_topo/0/x", "_edge/"])
def test_addresses_of_the_routers_themselves_cannot_be_distributed(match: str) -> None:
    for address in (Address(X, MESH, prefix=match), Address(X, MESH, pattern=f"{match}/#")):
        desired = desire(addresses=(address,))
        verdict = desired.verdicts["Address", X]
        assert (verdict.accepted, verdict.reason, verdict.held) == (False, "ReservedAddress", True)
        assert desired.verdicts["Router", MESH].good


@pytest.mark.parametrize("match", ["$management.x", "local", "_local.x", "x/_topo", "$queue"])
def test_other_addresses_can(match: str) -> None:
    assert desire(addresses=(Address(X, MESH, prefix=match),)).verdicts["Address", X].good


@pytest.mark.parametrize("place", [{"prefix": "#"}, {"pattern": "#"}, {"pattern": "/#/#"}])
@pytest.mark.parametrize(
    ("direction", "told"), [("in", {"senders"}), ("out", {"receivers"}), ("both", {"senders", "receivers"})]
)
def test_a_link_route_for_every_address_says_what_it_takes(
    place: dict[str, Any], direction: str, told: set[str]
) -> None:
    route = LinkRoute(X, MESH, direction, container_id="c", **place)
    verdict = desire(linkroutes=(route,)).verdicts["LinkRoute", X]
    assert (verdict.good, verdict.reason) == (True, "Accepted")
    assert " matches every address" in verdict.message
    for word, more in (("senders", "without an address"), ("receivers", "dynamic source")):
        assert (word in verdict.message, more in verdict.message) == ((word in told,) * 2)


@pytest.mark.parametrize("place", [{"prefix": "a"}, {"pattern": "a/#"}, {"pattern": "*/#"}])
def test_other_link_routes_have_nothing_to_say(place: dict[str, Any]) -> None:
    route = LinkRoute(X, MESH, "both", container_id="c", **place)
    assert desire(linkroutes=(route,)).verdicts["LinkRoute", X] == GOOD


def test_the_condition_of_a_link_route_for_every_address_says_so() -> None:
    route = replace(ROUTE, prefix=None, pattern="#")
    found = conditions(linkroute_status(route, seen(replace(ALL, linkroutes=(route,))), {}, NOW))
    assert found["Accepted"][:2] == ("True", "Accepted")
    assert found["Accepted"][2].startswith("valid, but # matches every address")
    assert found["Ready"][0] == "True"


def test_a_listener_with_passwords_but_without_users_is_told() -> None:
    open_, scram = Listener("open", 5672), Listener("amqp", 5673, auth="scram")
    router = replace(ROUTER, listeners=(open_, scram))
    verdict = judge_router(router, {}, {})
    assert (verdict.resolved_refs, verdict.reason) == (False, "NoUsers")
    assert "amqp (auth scram)" in verdict.message
    assert "open" not in verdict.message
    tokens = replace(router, listeners=(open_, replace(scram, tls=True, token_profile="sso")))
    assert judge_router(tokens, {}, {}).good, "clients may log in with tokens"
    shared = replace(router, listeners=(scram, replace(scram, name="b", port=5674, users="people")))
    assert judge_router(shared, {"people": {"a": b"b"}}, {}).good, "all listeners have the same users"


@pytest.mark.parametrize(
    "host", ["999.1.1.1", "no host", "10.0.0.9-10.0.0.1", "10.0.0.0/99", "10.0.0.1/8", "fe80::1%eth0", "a:b"]
)
def test_remote_hosts_that_are_no_hosts_do_not_keep_routers_from_starting(host: str) -> None:
    group = UserGroup("g", (("users", "u"), ("remoteHosts", f"127.0.0.1,{host}")))
    desired = desire(vhost_policies=(VhostPolicy(X, MESH, "h", groups=(group,)),))
    verdict = desired.verdicts["VhostPolicy", X]
    assert (verdict.accepted, verdict.reason) == (False, "RefusedByRouters")
    assert repr(host) in verdict.message
    assert desired.verdicts["Router", MESH].good


@pytest.mark.parametrize("url", ["http://", "https://:9000", "http://a b", "http://x:99999", "http://-x/", "http://u@x"])
def test_an_endpoint_that_is_no_url_of_a_service_is_told(url: str) -> None:
    router = replace(ROUTER, telemetry=Telemetry(target="S3", s3=S3("bucket", endpoint=url)))
    verdict = judge_telemetry(router, {}, {})
    assert (verdict.good, verdict.reason, verdict.spared) == (False, "EndpointUnusable", True)


@pytest.mark.parametrize("url", ["http://minio:9000", "https://s3.eu-1.example.org/", "http://[::1]:9000", "http://a_b.c."])
def test_other_endpoints_are_used(url: str) -> None:
    assert unusable_endpoint(url) == ""
