"""What the definitions accept although it cannot work is told by a verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.operator.test_operator_objects import MESH, ROUTER, desire
from waymesh_operator.resources.dependents import Address
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import S3, Ref, Telemetry
from waymesh_operator.resources.vhost_policy import UserGroup, VhostPolicy
from waymesh_operator.router_entities.verdicts import judge_router, judge_telemetry
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
