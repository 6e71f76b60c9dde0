"""Real routers start from the seeds of a cluster, form a mesh with mutual TLS, and have the planned entities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.kit.waiting import wait_until
from tests.reconcile.pods import Pods
from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.resources.dependents import Address, AutoLink, Broker, BrokerTls, LinkRoute, Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router, Telemetry
from waymesh_operator.router_entities.names import TELEMETRY_FOLDER
from waymesh_operator.routers.management import apply_entity
from waymesh_operator.tls.rollover import TlsRequest, next_tls

pytestmark = pytest.mark.e2e

MESH = Ref("ns", "mesh")
ROUTER = Router(
    MESH,
    size=2,
    listeners=(
        Listener("amqp", 5672, auth="scram", users="users"),
        Listener("amqps", 5671, tls=True, auth="mtls", certificate="own", authorities="ca"),
    ),
    log_levels=(("HTTP", "none"),),
    telemetry=Telemetry("EmptyDir"),
)
BROKER = Broker(
    Ref("ns", "b"),
    MESH,
    (("localhost", 1), ("localhost", 2)),
    "vhost",
    BrokerTls("ca"),
    mechanism="PLAIN",
    secret="login",
)
RESOURCES = Resources(
    ROUTER,
    (
        Address(Ref("ns", "a"), MESH, prefix="a", waypoint=True),
        Address(Ref("ns", "p"), MESH, pattern="p.#", priority=3),
    ),
    (BROKER,),
    (AutoLink(Ref("ns", "l"), MESH, "a", "in", broker=BROKER.ref),),
    (LinkRoute(Ref("ns", "r"), MESH, "both", prefix="r", broker=BROKER.ref),),
)
TLS = next_tls(TlsRequest("mesh", "ns"), {}, {}, datetime.now(UTC))
SECRETS = {
    "users": {"alice": b"secret"},
    "own": TLS.secrets("mesh")["mesh-tls"],
    "login": {"username": b"u", "password": b"p"},
    "ca": {"ca.crt": TLS.authority.certificate},
}


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path, TLS)
    yield made
    for router in made.routers:
        router.stop()


def desire(resources: Resources) -> DesiredState:
    return desired_cluster(resources, ClusterContext(OperatorSettings("image"), SECRETS, TLS))


def test_routers_boot_find_each_other_and_hold_what_is_wanted_before_and_after_a_change(pods: Pods) -> None:
    desired = desire(RESOURCES)
    assert desired.obstacles.found == ()
    pods.boot(desired)
    with pods.client(0) as client:
        wait_until(lambda: len(client.query("router.node")) == 2, 60, "the routers see each other")
        connections = client.query("connection")
    between = [row for row in connections if row["role"] == "inter-router"]
    assert all((row["sasl"], row["isEncrypted"], row["isAuthenticated"]) == ("EXTERNAL", True, True) for row in between)
    assert len(between) == 1
    for ordinal in range(2):
        assert pods.plan(ordinal, desired) == []
    assert (pods.folder / TELEMETRY_FOLDER.lstrip("/")).is_dir()
    changed = Resources(
        replace(
            ROUTER,
            listeners=ROUTER.listeners[:1],
            log_level="debug",
            log_levels=(),
            drain_timeout_s=7,
            telemetry=Telemetry(),
        ),
        (replace(RESOURCES.addresses[0], distribution="closest"),),
        (replace(BROKER, endpoints=(("localhost", 3),), tls=None, mechanism="SCRAM-SHA-256"),),
    )
    desired = desire(changed)
    actions = pods.plan(1, desired)
    assert actions
    with pods.operator(1) as client:
        for action in actions:
            apply_entity(client, action)
    assert pods.plan(1, desired) == []
