"""Real routers start from the seeds of a cluster, form a mesh with mutual TLS, and have the planned entities."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kit.boot import BootedRouter
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until
from waymesh_client.channel import Tls
from waymesh_client.management import ManagementClient
from waymesh_operator.cluster.context import ClusterContext, OperatorSettings
from waymesh_operator.cluster.desired import DesiredState, desired_cluster
from waymesh_operator.resources.dependents import Address, AutoLink, Broker, BrokerTls, LinkRoute, Resources
from waymesh_operator.resources.router import Listener, Ref, Router, Telemetry
from waymesh_operator.router_entities.actions import EntityAction
from waymesh_operator.router_entities.diff import plan_entities
from waymesh_operator.router_entities.names import CERTIFICATES, CREDENTIALS, TELEMETRY_FOLDER, Entity
from waymesh_operator.routers.management import apply_entity, read_entities
from waymesh_operator.tls.rollover import TlsRequest, next_tls

pytestmark = pytest.mark.e2e

MESH = Ref("ns", "mesh")
AMQP, AMQPS, MESH_PORT, OPERATORS_PORT, LOCAL = "5672", "5671", "55671", "55672", "55673"
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


class Pods:
    """Both routers of the mesh as processes: pods have an address of their own, these have ports of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = [
            {port: str(free_port()) for port in (AMQP, AMQPS, MESH_PORT, OPERATORS_PORT, LOCAL, "9090")} for _ in "ab"
        ]
        self.routers: list[BootedRouter] = []

    def boot(self, desired: DesiredState) -> None:
        """Secrets as folders, the ConfigMap as files, and then the routers."""
        objects = {f"{o['kind']} {o['metadata']['name']}": o for o in desired.objects}
        for name, path in (("Secret mesh-tls", CERTIFICATES), ("Secret mesh-credentials", CREDENTIALS)):
            (self.folder / path.lstrip("/")).mkdir(parents=True)
            for key, value in objects[name]["data"].items():
                (self.folder / path.lstrip("/") / key).write_bytes(base64.b64decode(value))
        seeds = objects["ConfigMap mesh-seed"]
        shared = json.loads(gzip.decompress(base64.b64decode(seeds["binaryData"]["shared.json.gz"])))
        for ordinal, ports in enumerate(self.ports):
            own = json.loads(seeds["data"][f"mesh-{ordinal}.json"])
            rows = tuple([[k, self.moved(ordinal, a)] for k, a in part] for part in (shared, own))
            (self.folder / str(ordinal)).mkdir()
            listening = [int(ports[LOCAL]), int(ports[AMQP])]
            router = BootedRouter(self.folder / str(ordinal), f"mesh-{ordinal}", (rows[0], rows[1]), listening)
            self.routers.append(router)
            router.start()

    def moved(self, ordinal: int, attributes: dict[str, Any]) -> dict[str, Any]:
        """The same attributes with paths below our folder, and hosts and ports of this machine."""
        text = json.dumps(attributes)
        for path in ("/etc/waymesh", "/var/lib/waymesh"):
            text = text.replace(path, f"{self.folder}{path}")
        told: dict[str, Any] = json.loads(text)
        if told.get("role") == "inter-router" and told["host"]:
            peer = int(told["host"].partition(".")[0].removeprefix("mesh-"))
            told |= {"host": "localhost", "port": self.ports[peer][MESH_PORT]}
        elif told.get("port") in self.ports[ordinal] and "host" in told:
            told |= {"host": "127.0.0.1", "port": self.ports[ordinal][told["port"]]}
        return told

    def operator(self, ordinal: int) -> ManagementClient:
        """The operator's way to a router."""
        files = self.folder / "operator"
        files.mkdir(exist_ok=True)
        for name, data in TLS.secrets("mesh")["mesh-operator-tls"].items():
            (files / name).write_bytes(data)
        tls = Tls(str(files / "ca.crt"), str(files / "tls.crt"), str(files / "tls.key"))
        return ManagementClient(f"amqps://localhost:{self.ports[ordinal][OPERATORS_PORT]}", tls=tls)

    def client(self, ordinal: int) -> ManagementClient:
        return ManagementClient(f"amqp://127.0.0.1:{self.ports[ordinal][LOCAL]}")

    def plan(self, ordinal: int, desired: DesiredState) -> list[EntityAction]:
        """What one router would be told."""
        router = desired.mesh.routers[ordinal]
        wanted = [Entity(e.type, e.name, self.moved(ordinal, dict(e.attributes))) for e in router.entities]
        with self.client(ordinal) as client:
            known = {row["type"].removeprefix("org.apache.qpid.dispatch.") for row in client.query()}
            live = read_entities(client)
        # Entities of types that the engine does not have yet are refused, and asked for again.
        return [a for a in plan_entities(router.id, wanted, live) if a.entity.type in known]


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path)
    yield made
    for router in made.routers:
        router.stop()


def desire(resources: Resources) -> DesiredState:
    return desired_cluster(resources, ClusterContext(OperatorSettings("image"), SECRETS, TLS))


def test_routers_boot_find_each_other_and_hold_what_is_wanted_before_and_after_a_change(pods: Pods) -> None:
    desired = desire(RESOURCES)
    assert desired.stalled == ""
    pods.boot(desired)
    with pods.client(0) as client:
        wait_until(lambda: len(client.query("router.node")) == 2, 20, "the routers see each other")
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
