"""Many resources: how long until they are programmed, what they cost at rest, and how fast they go."""

from __future__ import annotations

import time

from tests.cluster.api import Object
from tests.cluster.namespace import Namespace, condition_status
from tests.cluster.paths import say
from tests.e2e_cluster.scene import Mesh, resource
from tests.kit.waiting import wait_until

MANY = 1000
HERE = {"name": "mesh"}


def links(count: int) -> list[Object]:
    """That many AutoLinks."""
    return [
        resource("AutoLink", f"link-{n}", routerRef=HERE, containerId="broker", address=f"queue.{n}", direction="in")
        for n in range(count)
    ]


def addresses(count: int) -> list[Object]:
    """That many Addresses."""
    return [
        resource("Address", f"address-{n}", routerRef=HERE, prefix=f"queue{n}", distribution="balanced")
        for n in range(count)
    ]


def test_namespace_deleted_in_the_middle_of_a_roll_is_gone_within_a_minute(
    operator: Namespace, namespace: Namespace
) -> None:
    mesh = Mesh(namespace).apply(3, drain={"timeoutSeconds": 10})
    mesh.converged(3)
    namespace.apply(links(200))
    before = mesh.lives()
    namespace.patch("Router", "mesh", {"spec": {"pod": {"labels": {"rolled": "yes"}}}})
    wait_until(lambda: mesh.lives() != before, 90, "the roll has begun")
    namespace.api.delete("Namespace", namespace.name)
    began = time.monotonic()
    wait_until(lambda: namespace.api.get("Namespace", namespace.name) is None, 60, "the namespace gone")
    say(f"namespace with a mesh and 200 AutoLinks gone after {time.monotonic() - began:.1f} s")


def test_two_thousand_resources_are_programmed(operator: Namespace, namespace: Namespace) -> None:
    Mesh(namespace).apply(3).converged(3)
    began = time.monotonic()
    namespace.apply([*addresses(MANY), *links(MANY)])
    applied = time.monotonic()

    def programmed() -> bool:
        found = namespace.all("Address")
        return len(found) == MANY and all(condition_status(one, "Programmed") == "True" for one in found)

    wait_until(programmed, 420, f"{MANY} Addresses programmed")
    done = time.monotonic()
    say(f"{2 * MANY} resources: kubectl apply {applied - began:.1f} s, all Addresses programmed {done - began:.1f} s")
