"""The two routers of a mesh of a cluster as processes on this machine."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from tests.kit.boot import BootedRouter
from tests.kit.ports import free_port
from tests.kit.seeds import shared_rows
from waymesh_client.channel import Tls
from waymesh_client.management import ManagementClient
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.router_entities.actions import EntityAction, plan_entities
from waymesh_operator.router_entities.names import CERTIFICATES, CREDENTIALS, Entity
from waymesh_operator.routers.management import read_entities
from waymesh_operator.tls.rollover import MeshTls

AMQP, AMQPS, MESH_PORT, OPERATORS_PORT, LOCAL = "5672", "5671", "55671", "55672", "55673"


class Pods:
    """Both routers of the mesh as processes: pods have an address of their own, these have ports of their own."""

    def __init__(self, folder: Path, tls: MeshTls, mechanisms: str = "") -> None:
        """`mechanisms`: what listeners for users offer instead of SCRAM."""
        self.folder = folder
        self.tls = tls
        self.mechanisms = mechanisms
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
        shared = shared_rows(lambda name: objects.get(f"ConfigMap {name}"))
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
        if self.mechanisms and "SCRAM" in str(told.get("saslMechanisms")):
            told |= {"saslMechanisms": self.mechanisms, "allowInsecurePlain": True}
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
        for name, data in self.tls.secrets("mesh")["mesh-operator-tls"].items():
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
