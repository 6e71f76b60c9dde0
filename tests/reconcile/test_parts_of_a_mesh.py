"""An obstacle in one part of a mesh in Kubernetes neither holds up nor hides the other parts."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.errors import KubeError, WaymeshError
from waymesh_operator.places.kubernetes import desired

pytestmark = pytest.mark.engine_independent

LISTENERS = [{"name": "amqp", "port": 5672, "auth": "scram", "users": {"secretRef": {"name": "users"}}}]
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "users", "namespace": NAMESPACE},
    "data": {"alice": base64.b64encode(b"a").decode()},
}


def refuse(lab: Lab, *objects: str, status: int = 422) -> None:
    """The API server refuses to write these objects, `Kind name` each."""

    def fail(verb: str, kind: str, name: str) -> None:
        if verb == "apply" and f"{kind} {name}" in objects:
            raise KubeError(status, f"{kind} {name} is refused")

    lab.kube.fail = fail


def parts(lab: Lab) -> dict[str, str]:
    """The obstacles in the status: reason by part."""
    return {row["part"]: row["reason"] for row in lab.status().get("obstacles", ())}


def message(lab: Lab, name: str) -> str:
    (found,) = (one for one in lab.status()["conditions"] if one["type"] == name)
    return str(found["message"])


def replicas(lab: Lab) -> int:
    return int(lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["replicas"])


async def tried(lab: Lab, condition: Callable[[], bool]) -> None:
    await lab.until(condition, failing=True)


def test_a_refused_service_holds_up_no_router_and_no_address() -> None:
    async def story(lab: Lab) -> None:
        refuse(lab, "Service mesh")
        lab.router(2)
        await tried(lab, lambda: lab.condition("Converged")[0] == "True")
        assert lab.condition("Stalled") == ("True", "RefusedByApiServer")
        assert parts(lab) == {"exposure": "RefusedByApiServer"}
        assert message(lab, "Stalled") == "exposure: Service mesh is refused"
        lab.router(3)
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        await tried(lab, lambda: lab.mesh.names_up() == ["mesh-0", "mesh-1", "mesh-2"])
        await tried(lab, lambda: lab.condition("Ready", "Address", "orders")[0] == "True")
        lab.router(1)
        await tried(lab, lambda: replicas(lab) == 1)
        refuse(lab)
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"
        assert "obstacles" not in lab.status()

    run(story)


def test_a_refused_stateful_set_holds_up_no_service_and_drains_no_router() -> None:
    async def story(lab: Lab) -> None:
        lab.router(3)
        await lab.settle()
        refuse(lab, "StatefulSet mesh")
        lab.kube.remove("Service", NAMESPACE, "mesh")
        lab.router(1, pod={"nodeSelector": {"a": "b"}})
        await tried(lab, lambda: parts(lab) == {"workload": "RefusedByApiServer"})
        await tried(lab, lambda: ("Service", NAMESPACE, "mesh") in lab.kube.objects)
        for _ in range(5):
            with suppress(WaymeshError):
                await lab.turn()
            assert not any(lab.live(name).router.get("draining") for name in lab.mesh.names_up())
        assert replicas(lab) == 3
        refuse(lab)
        await lab.settle()
        assert lab.mesh.names_up() == ["mesh-0"]

    run(story)


@pytest.mark.parametrize(
    "refused", ["Secret mesh-credentials", "NetworkPolicy mesh", "ConfigMap mesh-seed", "Secret mesh-tls"]
)
def test_no_router_starts_without_what_protects_it_but_clients_find_the_others(refused: str) -> None:
    async def story(lab: Lab) -> None:
        refuse(lab, refused)
        lab.router(1)
        await tried(lab, lambda: bool(parts(lab)))
        await tried(lab, lambda: ("Service", NAMESPACE, "mesh") in lab.kube.objects)
        assert ("StatefulSet", NAMESPACE, "mesh") not in lab.kube.objects
        refuse(lab)
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"

    run(story)


def test_all_parts_say_what_they_lack_and_end_one_by_one() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2, listeners=LISTENERS)
        refuse(lab, "Service mesh", "StatefulSet mesh")
        await tried(lab, lambda: len(parts(lab)) == 3)
        both = {"workload": "RefusedByApiServer", "exposure": "RefusedByApiServer"}
        assert parts(lab) == {"access": "SecretMissing", **both}
        assert lab.condition("ResolvedRefs") == ("False", "SecretMissing")
        assert lab.condition("Stalled") == ("True", "RefusedByApiServer")
        for text in ("workload: StatefulSet mesh", "exposure: Service mesh"):
            assert text in message(lab, "Stalled")
        refuse(lab, "Service mesh")
        await tried(lab, lambda: lab.mesh.names_up() == ["mesh-0", "mesh-1"])
        await tried(lab, lambda: "workload" not in parts(lab))
        refuse(lab)
        await tried(lab, lambda: parts(lab) == {"access": "SecretMissing"})
        assert lab.condition("Stalled")[0] == "False", "the Secret may be about to come"
        assert lab.condition("Ready") == ("False", "SecretMissing")
        lab.kube.put(SECRET)
        lab.later(60)
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"
        assert "obstacles" not in lab.status()

    run(story)


def test_a_missing_secret_of_users_is_told_beside_a_configuration_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(desired, "LIMIT_BYTES", 10)

    async def story(lab: Lab) -> None:
        lab.router(1, listeners=LISTENERS)
        await tried(lab, lambda: len(parts(lab)) == 2)
        assert parts(lab) == {"access": "SecretMissing", "configuration": "Stalled"}
        assert lab.condition("ResolvedRefs")[0] == "False"
        assert "Secret users" in message(lab, "ResolvedRefs")

    run(story)
