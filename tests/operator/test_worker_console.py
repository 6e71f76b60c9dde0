"""`spec.console`: an entity of running routers alone, a port of the Service, what is said of an image without it."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest

from tests.operator.kit import NAMESPACE, Lab, run

pytestmark = pytest.mark.engine_independent

CONSOLE: dict[str, Any] = {"enabled": True, "auth": "mtls"}
ENTITY = "k8s/ns/Router/mesh/listener/console"
WITHOUT = "listener: console: this installation is without it"


def body(lab: Lab, kind: str, name: str = "mesh") -> dict[str, Any]:
    return dict(lab.kube.objects[kind, NAMESPACE, name])


def ports(lab: Lab) -> list[int]:
    return [port["port"] for port in body(lab, "Service")["spec"]["ports"]]


def seeds(lab: Lab) -> str:
    """What pods boot with."""
    found = body(lab, "ConfigMap", "mesh-seed")
    shared = gzip.decompress(base64.b64decode(found["binaryData"]["shared.json.gz"])).decode()
    return shared + "".join(text for name, text in found["data"].items() if name.endswith(".json"))


def test_it_comes_and_goes_on_running_routers_without_a_restart_and_without_drift() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        template, pods = body(lab, "StatefulSet")["spec"]["template"], dict(lab.mesh.routers)
        assert ports(lab) == [5672]
        lab.router(2, console=CONSOLE)
        await lab.settle()
        for name in ("mesh-0", "mesh-1"):
            listener = lab.live(name).rows["listener"][ENTITY]
            wanted = {
                "console": True, "http": True, "websockets": True, "requireSsl": True, "authenticatePeer": True,
                "saslMechanisms": "EXTERNAL", "management": "read", "port": "8443", "sslProfile": "mesh",
            }  # fmt: skip
            assert wanted.items() <= listener.items()
        assert ports(lab) == [5672, 8443]
        rules = body(lab, "NetworkPolicy")["spec"]["ingress"]
        assert {"port": 8443, "protocol": "TCP"} in [port for rule in rules for port in rule["ports"]]
        assert lab.status()["drift"] == {"state": "None", "current": 0, "repaired": 0, "unmanaged": 0}
        lab.router(2)
        await lab.settle()
        assert ENTITY not in lab.live("mesh-0").rows["listener"]
        assert ports(lab) == [5672]
        assert body(lab, "StatefulSet")["spec"]["template"] == template
        assert lab.mesh.routers == pods

    run(story)


@pytest.mark.parametrize("drift", ["Repair", "Report"])
def test_no_pod_boots_with_it_and_a_new_pod_gets_it(drift: str) -> None:
    async def story(lab: Lab) -> None:
        lab.router(1, drift=drift, console=CONSOLE)
        await lab.settle()
        assert "listener/console" not in seeds(lab)
        assert ENTITY in lab.live("mesh-0").rows["listener"]
        lab.stop_pod("mesh-0")
        await lab.settle()
        assert ENTITY in lab.live("mesh-0").rows["listener"]
        assert (lab.status()["drift"]["repaired"], lab.condition("Ready")[0]) == (0, "True")

    run(story)


def test_an_image_without_it_says_so_and_its_pods_start_all_the_same() -> None:
    async def story(lab: Lab) -> None:
        lab.mesh.refuse = lambda kind, name: WITHOUT if name == ENTITY else ""
        lab.router(1, console=CONSOLE)
        for _ in range(8):
            lab.control()
            await lab.turn()
        assert lab.condition("Programmed") == ("False", "Refused")
        (found,) = (item for item in lab.status()["conditions"] if item["type"] == "Programmed")
        assert WITHOUT in found["message"]
        assert lab.condition("Converged")[0] == "True"
        lab.stop_pod("mesh-0")
        lab.control()
        assert lab.live("mesh-0").names("listener") != []
        lab.router(1)
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"

    run(story)


def test_it_is_exposed_as_listeners_are() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1, console=CONSOLE | {"expose": {"type": "NodePort"}})
        await lab.settle()
        service = body(lab, "Service", "mesh-out-console")
        assert service["spec"]["type"] == "NodePort"
        assert [row["name"] for row in lab.status()["listeners"]] == ["console"]
        lab.router(1, console=CONSOLE)
        await lab.settle()
        assert ("Service", NAMESPACE, "mesh-out-console") not in lab.kube.objects

    run(story)
