"""Listeners that are reached from outside: what the worker makes, where it looks, and what it puts back."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.operator.kit import MESH, NAMESPACE, Lab, run
from waymesh_client.errors import ConnectionFailed
from waymesh_operator.errors import KubeError, WaymeshError

pytestmark = pytest.mark.engine_independent

GROUP = "gateway.networking.k8s.io"
DOOR = (("apply", "mesh-out-amqps"), ("delete", "mesh-out-amqps"))


def listeners(**expose: Any) -> list[dict[str, Any]]:
    one = {"name": "amqps", "port": 5671, "tls": True, "auth": "mtls"}
    return [one | ({"expose": expose} if expose else {})]


def gateway() -> list[dict[str, Any]]:
    return listeners(type="Gateway", host="a.org", gatewayRef={"name": "edge"})


def install(lab: Lab, *versions: str) -> None:
    """Gateway API, whose TLSRoute is in these versions."""
    lab.kube.unknown_kinds -= {"TLSRoute", "TCPRoute"}
    served = [{"groupVersion": f"{GROUP}/{version}"} for version in ("v1beta1", *versions)]
    lab.kube.documents[f"/apis/{GROUP}"] = {"versions": served}
    lab.kube.documents[f"/apis/{GROUP}/v1beta1"] = {"resources": [{"name": "gateways", "kind": "Gateway"}]}
    for version in versions:
        kinds = [{"name": "tlsroutes", "kind": "TLSRoute"}, {"name": "tlsroutes/status", "kind": "TLSRoute"}]
        lab.kube.documents[f"/apis/{GROUP}/{version}"] = {"resources": kinds}


def uninstall(lab: Lab) -> None:
    """Gateway API goes, and with it all routes."""
    lab.kube.unknown_kinds |= {"TLSRoute", "TCPRoute"}
    for key in [key for key in lab.kube.objects if key[0] in lab.kube.unknown_kinds]:
        lab.kube.remove(*key)
    for path in [path for path in lab.kube.documents if path.startswith(f"/apis/{GROUP}")]:
        del lab.kube.documents[path]


def doors(lab: Lab) -> set[str]:
    return {f"{kind} {name}" for kind, _, name in lab.kube.objects if "-out-" in name}


def asked(lab: Lab) -> list[str]:
    return [name for verb, kind, name in lab.kube.calls if kind in ("document", "TLSRoute", "TCPRoute")]


def test_a_service_comes_changes_is_put_back_and_goes_with_the_setting() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1, listeners=listeners(type="NodePort"))
        await lab.settle()
        assert doors(lab) == {"Service mesh-out-amqps"}
        key = "Service", NAMESPACE, "mesh-out-amqps"
        lab.kube.edit(*key, lambda body: body["spec"]["selector"].update({"waymesh.io/router": "x"}))
        await lab.settle()
        assert lab.kube.objects[key]["spec"]["selector"]["waymesh.io/router"] == "mesh"
        lab.router(1, listeners=listeners(type="LoadBalancer", perRouter=True))
        await lab.settle()
        assert lab.kube.objects[key]["spec"]["type"] == "LoadBalancer"
        assert doors(lab) == {"Service mesh-out-amqps", "Service mesh-0-out-amqps"}
        lab.router(1, listeners=listeners())
        await lab.settle()
        assert doors(lab) == set()
        assert asked(lab) == []

    run(story)


def test_without_gateway_api_the_router_is_stalled_serves_all_the_same_and_goes_on_when_it_comes() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1, listeners=gateway())
        await lab.settle()
        assert lab.condition("Stalled") == ("True", "ApiMissing")
        assert lab.condition("Converged")[0] == "True"
        install(lab, "v1", "v1alpha2")
        lab.later(70)
        await lab.settle()
        assert lab.condition("Stalled")[0] == "False"
        assert lab.condition("Ready")[0] == "True"
        assert lab.kube.objects["TLSRoute", NAMESPACE, "mesh-out-amqps"]["apiVersion"] == f"{GROUP}/v1"
        assert lab.status()["listeners"][0]["addresses"] == ["a.org:443"]

    run(story)


def test_when_gateway_api_goes_the_router_is_stalled_at_once_and_its_mesh_is_looked_after() -> None:
    async def story(lab: Lab) -> None:
        install(lab, "v1")
        lab.router(1, listeners=gateway())
        await lab.settle()
        uninstall(lab)
        lab.router(2, listeners=gateway())
        await lab.settle()
        assert lab.condition("Stalled") == ("True", "ApiMissing")
        assert (lab.status()["size"], lab.condition("Converged")[0]) == (2, "True")
        install(lab, "v1alpha3")
        lab.later(70)
        await lab.settle()
        assert lab.condition("Stalled")[0] == "False"

    run(story)


def test_a_route_that_was_changed_or_deleted_is_put_back_and_at_rest_nothing_is_written() -> None:
    async def story(lab: Lab) -> None:
        install(lab, "v1alpha2")
        lab.router(1, listeners=gateway())
        await lab.settle()
        key = "TLSRoute", NAMESPACE, "mesh-out-amqps"
        lab.kube.edit(*key, lambda body: body["spec"].update(hostnames=["evil.org"]))
        await lab.settle()
        assert lab.kube.objects[key]["spec"]["hostnames"] == ["a.org"]
        lab.kube.remove(*key)
        await lab.settle()
        writes = len(lab.kube.writes())
        assert key in lab.kube.objects
        lab.later(30)
        await lab.turn()
        assert len(lab.kube.writes()) == writes

    run(story)


def test_an_operator_that_begins_removes_routes_of_before_and_then_asks_no_more() -> None:
    async def story(lab: Lab) -> None:
        install(lab, "v1alpha2")
        lab.router(1, listeners=gateway())
        await lab.settle()
        lab.anew()
        lab.router(1, listeners=listeners())
        await lab.settle()
        assert doors(lab) == set()
        lab.kube.calls.clear()
        lab.later(120)
        await lab.settle()
        assert asked(lab) == []

    run(story)


def test_without_rights_the_router_says_so() -> None:
    async def story(lab: Lab) -> None:
        install(lab, "v1alpha2")

        def refuse(verb: str, kind: str, name: str) -> None:
            if kind == "TLSRoute":
                raise KubeError(403, "forbidden")

        lab.kube.fail = refuse
        lab.router(1, listeners=gateway())
        await lab.settle()
        conditions = {item["type"]: item for item in lab.status()["conditions"]}
        assert "rbac.exposure" in conditions["Stalled"]["message"]

    run(story)


def test_nothing_is_left_of_a_mesh_that_is_gone_with_its_routes() -> None:
    async def story(lab: Lab) -> None:
        install(lab, "v1alpha2")
        lab.kube.watchers[:] = [
            lambda event, body: body["kind"] != "TLSRoute" and lab.inventory.see(event, body)  # nobody watches it
        ]
        lab.router(1, listeners=gateway())
        await lab.settle()
        assert "TLSRoute mesh-out-amqps" in doors(lab)
        lab.kube.remove("Router", NAMESPACE, "mesh")
        await lab.until(lambda: not lab.inventory.of(MESH))
        assert await lab.turn() is None

    run(story)


def test_a_listener_is_secured_before_it_is_exposed_and_closed_before_it_is_not() -> None:
    plain = [{"name": "amqps", "port": 5671}]

    async def story(lab: Lab) -> None:
        lab.router(1, listeners=plain)
        await lab.settle()
        order: list[str] = []
        lab.mesh.fail = lambda router, verb, what: order.append("listener") if "amqps" in what else None
        lab.kube.fail = lambda verb, kind, name: order.append(verb) if (verb, name) in DOOR else None
        lab.router(1, listeners=listeners(type="NodePort"))
        await lab.settle()
        assert list(dict.fromkeys(order)) == ["listener", "apply"]
        order.clear()
        lab.router(1, listeners=plain)
        await lab.settle()
        assert list(dict.fromkeys(order)) == ["delete", "listener"]

    run(story)


def test_nothing_is_exposed_while_a_router_does_not_take_the_change_of_its_listener() -> None:
    def fail(router: str, verb: str, what: str) -> None:
        if router == "mesh-1" and verb in ("create", "delete"):
            raise ConnectionFailed(router, 55672, "connection reset")

    async def story(lab: Lab) -> None:
        lab.router(2, listeners=[{"name": "amqps", "port": 5671}])
        await lab.settle()
        lab.mesh.fail = fail
        lab.router(2, listeners=listeners(type="LoadBalancer"))
        for _ in range(5):
            with contextlib.suppress(WaymeshError):
                await lab.turn()
            assert doors(lab) == set()
        lab.mesh.fail = lambda router, verb, what: None
        await lab.until(lambda: doors(lab) == {"Service mesh-out-amqps"})

    run(story)


def test_running_routers_tell_their_clients_addresses_as_they_become_known_and_as_the_mesh_grows() -> None:
    def told(lab: Lab) -> list[list[str]]:
        rows = [lab.live(name).rows["listener"]["k8s/ns/Router/mesh/listener/amqps"] for name in lab.mesh.names_up()]
        return [str(row.get("failoverUrls") or "").split(",") for row in rows]

    def give(lab: Lab, name: str, host: str) -> None:
        status = {"loadBalancer": {"ingress": [{"hostname": host}]}}
        lab.kube.edit("Service", NAMESPACE, name, lambda body: body.update(status=status))

    async def story(lab: Lab) -> None:
        given = [{**listeners(type="LoadBalancer", perRouter=True)[0], "failover": "Auto"}]
        lab.router(2, listeners=given)
        await lab.settle()
        assert told(lab) == [[""], [""]]
        booted = [lab.live(name) for name in lab.mesh.names_up()]
        give(lab, "mesh-out-amqps", "lb.example.org")
        give(lab, "mesh-1-out-amqps", "lb-1.example.org")
        await lab.settle()
        to_any = "amqps://lb.example.org:5671"
        assert told(lab) == [["amqps://lb-1.example.org:5671", to_any], [to_any]]
        lab.router(3, listeners=given)
        await lab.settle()
        give(lab, "mesh-2-out-amqps", "lb-2.example.org")
        await lab.settle()
        first, second = (f"amqps://lb-{k}.example.org:5671" for k in (1, 2))
        assert told(lab) == [[first, second, to_any], [second, to_any], [first, to_any]]
        assert [lab.live(name) for name in ("mesh-0", "mesh-1")] == booted
        assert (lab.status()["drift"]["current"], lab.status()["drift"]["repaired"]) == (0, 0)
        writes = len(lab.kube.writes())
        lab.later(30)
        await lab.turn()
        assert len(lab.kube.writes()) == writes

    run(story)
