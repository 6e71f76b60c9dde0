"""Resources that refer to a Router: applied to its routers and monitored there, against fakes."""

from __future__ import annotations

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.router_entities.names import AUTOLINK, POLICY, VHOST

pytestmark = pytest.mark.engine_independent


def test_worker_programs_what_refers_to_the_router_and_tells_its_state() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        lab.add("Address", "orders", prefix="orders", distribution="multicast")
        lab.add("AutoLink", "in", address="orders", direction="in", containerId="broker")
        await lab.settle()
        for name in ("mesh-0", "mesh-1"):
            assert lab.live(name).names("router.config.address") == ["k8s/ns/Address/orders"]
        assert lab.condition("Programmed", "Address", "orders")[0] == "True"
        assert lab.status("AutoLink", "in")["state"] == "active"
        lab.kube.remove("Address", NAMESPACE, "orders")
        await lab.settle()
        assert lab.live("mesh-0").names("router.config.address") == []

    run(story)


def test_worker_tells_where_a_broker_has_connected() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2, listeners=[{"name": "brokers", "port": 5673, "role": "route-container"}])
        lab.add("Broker", "store", direction="Incoming", brokerContainerId="store")
        await lab.settle()
        assert lab.condition("Ready", "Broker", "store") == ("False", "NotConnected")
        rows = {
            "1": {"role": "route-container", "dir": "in", "container": "store"},
            "2": {"role": "normal", "dir": "in", "container": "client"},
        }
        lab.live("mesh-1").rows["connection"] = rows
        lab.later(3)
        await lab.settle()
        assert lab.condition("Ready", "Broker", "store")[0] == "True"
        assert lab.status("Broker", "store")["connected"] == "1/2"
        lab.live("mesh-1").rows["connection"] = {}
        lab.later(60)
        await lab.turn()
        assert lab.status("Broker", "store")["connected"] == "0/2"

    run(story)


def test_worker_says_what_a_router_refuses_and_tries_again() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        lab.mesh.refuse = lambda kind, name: "not before Friday" if "AutoLink" in name else ""
        lab.add("AutoLink", "in", address="orders", direction="in", containerId="broker")
        await lab.settle()
        assert lab.condition("Programmed", "AutoLink", "in")[0] == "False"
        assert "not before Friday" in lab.status("AutoLink", "in")["lastError"]
        tries = lab.live("mesh-0").calls.count(("create", "k8s/ns/AutoLink/in"))
        lab.mesh.refuse = lambda kind, name: ""
        await lab.turn()
        await lab.settle()
        assert tries < 5
        assert lab.condition("Programmed", "AutoLink", "in")[0] == "True"

    run(story)


def test_worker_bears_an_engine_that_does_not_know_a_type_yet() -> None:
    async def story(lab: Lab) -> None:
        lab.mesh.unknown_types = {"router.config.autoLink"}
        lab.router(1)
        lab.add("AutoLink", "in", address="orders", direction="in", containerId="broker")
        lab.add("Address", "orders", prefix="orders")
        await lab.settle()
        assert lab.condition("Programmed", "AutoLink", "in")[0] == "False"
        assert "not implemented" in lab.status("AutoLink", "in")["lastError"]
        assert lab.condition("Programmed", "Address", "orders")[0] == "True"

    run(story)


def test_worker_waits_for_a_missing_secret_and_goes_on_when_it_comes() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        broker = {"endpoints": [{"host": "broker", "port": 5672}]}
        lab.add("Broker", "b", **broker, auth={"mechanism": "PLAIN", "secretRef": {"name": "pw"}}, tls={})
        await lab.settle()
        assert lab.condition("ResolvedRefs", "Broker", "b")[0] == "False"
        data = {"username": "dXNlcg==", "password": "cHc="}
        lab.kube.put(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pw", "namespace": NAMESPACE}, "data": data}
        )
        await lab.settle()
        assert lab.condition("ResolvedRefs", "Broker", "b")[0] == "True"
        assert "k8s/ns/Broker/b" in lab.live("mesh-0").names("connector")
        data = {**data, "password": "bmV3"}
        lab.kube.edit("Secret", NAMESPACE, "pw", lambda body: body.update(data=data))
        lab.later(60)
        await lab.settle()
        assert lab.kube.objects["Secret", NAMESPACE, "mesh-credentials"]["data"]["broker.b.password"] == "bmV3"
        assert lab.status()["drift"]["repaired"] == 0

    run(story)


def test_worker_quiesces_an_autolink_and_looks_at_it_until_it_is_gone() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        lab.add("AutoLink", "in", address="q", direction="in", containerId="c")
        await lab.settle()
        lab.live("mesh-0").unsettled = 2
        lab.kube.remove("AutoLink", NAMESPACE, "in")
        for _ in range(4):
            assert await lab.turn() == "busy"
            lab.later(5)
        (row,) = lab.live("mesh-0").rows["router.config.autoLink"].values()
        assert row["quiescing"]
        lab.live("mesh-0").unsettled = 0
        await lab.settle()
        assert lab.live("mesh-0").names("router.config.autoLink") == []
        assert lab.status()["drift"] == {"state": "None", "current": 0, "repaired": 0, "unmanaged": 0}

    run(story)


def test_worker_makes_an_autolink_anew_that_came_to_rest_as_it_was_wanted_again() -> None:
    """What is known of the router is a moment old: there the autolink has removed itself meanwhile."""

    async def story(lab: Lab) -> None:
        lab.router(1)
        lab.add("AutoLink", "in", address="q", direction="in", containerId="c")
        await lab.settle()
        router = lab.live("mesh-0")
        (former,) = router.names(AUTOLINK)
        router.unsettled = 1
        lab.kube.remove("AutoLink", NAMESPACE, "in")
        await lab.turn()
        assert router.rows[AUTOLINK][former]["quiescing"]
        router.unsettled = 0
        router.rows[AUTOLINK].clear()
        router.calls.clear()
        lab.add("AutoLink", "in", address="q", direction="in", containerId="c")
        lab.later(1)
        await lab.worker.turn()
        assert ("update", former) in router.calls
        assert router.names(AUTOLINK) == [former]
        assert not router.rows[AUTOLINK][former].get("quiescing")
        assert lab.condition("Programmed", "AutoLink", "in")[0] == "True"

    run(story)


def test_worker_sees_a_link_come_without_waiting_for_a_resync() -> None:
    async def story(lab: Lab) -> None:
        lab.mesh.state = {"operStatus": "failed", "lastError": "Node not found: q"}
        lab.router(1)
        lab.add("AutoLink", "in", address="q", direction="in", containerId="c")
        await lab.until(lambda: "Node not found: q" in lab.status("AutoLink", "in").get("lastError", ""))
        assert ("Failed", "mesh-0: Node not found: q") in lab.kube.events()
        assert await lab.turn() == "busy"
        for row in lab.live("mesh-0").rows["router.config.autoLink"].values():
            row.update(operStatus="active", lastError=None)
        lab.later(3)
        await lab.turn()
        assert lab.condition("Ready", "AutoLink", "in")[0] == "True"

    run(story)


def test_worker_programs_vhost_policies_and_tells_what_they_denied() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2, policy={"enabled": True})
        group = {"name": "apps", "users": ["app"], "remoteHosts": ["*"], "sources": ["a", "b*"]}
        lab.add("VhostPolicy", "acme", hostname="acme.example", aliases=["a.example"], groups=[group])
        await lab.settle()
        for name in ("mesh-0", "mesh-1"):
            assert lab.live(name).rows[POLICY]["policy/own"]["enableVhostPolicy"] is True
            row = lab.live(name).rows[VHOST]["k8s/ns/VhostPolicy/acme"]
            assert (row["hostname"], row["aliases"]) == ("acme.example", "a.example")
            assert row["groups"]["apps"]["sources"] == "a,b*"
            lab.live(name).rows["vhostStats"] = {"": {"hostname": "acme.example", "connectionsDenied": 2}}
            lab.live(name).rows["vhostUserGroupStats"] = {
                "": {"hostname": "acme.example", "groupName": "apps", "linksDenied": 3, "sessionDenied": 1}
            }
        lab.later(60)
        await lab.settle()
        status = lab.status("VhostPolicy", "acme")
        assert (status["active"], status["denied"]) == ("2/2", 2 * (2 + 3 + 1))
        assert status["groups"] == [{"name": "apps", "denied": 8}]
        assert lab.condition("Ready", "VhostPolicy", "acme")[0] == "True"
        lab.kube.edit("VhostPolicy", NAMESPACE, "acme", lambda body: body["spec"].update(maxConnections=7))
        await lab.settle()
        assert lab.live("mesh-1").rows[VHOST]["k8s/ns/VhostPolicy/acme"]["maxConnections"] == 7
        lab.kube.remove("VhostPolicy", NAMESPACE, "acme")
        await lab.settle()
        assert lab.live("mesh-0").names(VHOST) == ["k8s/ns/Router/mesh/management"]
        lab.kube.edit("Router", NAMESPACE, "mesh", lambda body: body["spec"].pop("policy"))
        await lab.settle()
        assert lab.live("mesh-0").names(VHOST) == []
        assert lab.live("mesh-0").rows[POLICY]["policy/own"]["enableVhostPolicy"] is False

    run(story)


def test_worker_leaves_routers_that_know_no_policy_alone() -> None:
    async def story(lab: Lab) -> None:
        lab.mesh.unknown_types = {POLICY, VHOST}
        lab.router(1)
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"
        lab.add("VhostPolicy", "acme", hostname="acme.example")
        await lab.settle()
        assert "not implemented" in lab.status("VhostPolicy", "acme")["lastError"]

    run(story)
