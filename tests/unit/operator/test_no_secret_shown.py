"""What the operator says of a mesh (status, descriptions of actions, objects but Secrets) has no password or key."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.kubernetes.router_status import router_status
from waymesh_operator.planning.plan import ObservedState, plan
from waymesh_operator.planning.status.conditions import MeshSnapshot
from waymesh_operator.planning.status.dependents import broker_status
from waymesh_operator.resources.dependents import Broker, BrokerTls, Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterState
from waymesh_operator.tls.certificates import issue, new_ca
from waymesh_operator.tls.rollover import TlsRequest, next_tls

pytestmark = pytest.mark.engine_independent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CA = new_ca("own", NOW)
LEAF = issue(CA, "shop", ["shop.example"], NOW)
PASSWORDS = {"broker": b"planted-broker-9d1f", "good": b"planted-good-9d1f", "bad": b"planted-\abad-9d1f"}
SECRETS = {
    "users": {"alice": PASSWORDS["good"], "eve": PASSWORDS["bad"]},
    "broker": {"username": b"waymesh", "password": PASSWORDS["broker"]},
    "shop": {"tls.crt": LEAF.certificate, "tls.key": LEAF.key},
    "ca": {"ca.crt": CA.certificate},
}
ROUTER = Router(
    Ref("ns", "mesh"),
    size=2,
    listeners=(
        Listener("amqp", 5672, auth="scram", users="users"),
        Listener("amqps", 5671, tls=True, auth="mtls", certificate="shop", authorities="ca"),
    ),
    uid="u-1",
)
BROKER = Broker(Ref("ns", "b"), ROUTER.ref, (("b", 5671),), tls=BrokerTls("ca"), mechanism="PLAIN", secret="broker")


def forms(secret: bytes) -> set[str]:
    """As text, and in base64 behind anything, as Secrets and files have them."""
    text = secret.decode()
    coded = {base64.b64encode(b"\0" * before + secret).decode()[4:-4] for before in (1, 2, 3)}
    return {text, repr(text)[1:-1], *coded}


def test_nothing_but_secrets_has_a_password_or_key() -> None:
    tls = next_tls(TlsRequest("mesh", "ns"), {}, {}, NOW)
    resources = Resources(ROUTER, brokers=(BROKER,))
    desired = desired_cluster(resources, ClusterContext(OperatorSettings("image"), tls=tls, secrets=SECRETS))
    running = {
        router.id: ObservedRouter(router.id, router.ordinal, RouterState.RUNNING) for router in desired.mesh.routers
    }
    observed = ObservedState({}, ObservedMesh(running), {})
    snapshot = MeshSnapshot(desired, observed, NOW, tls=tls, secrets=SECRETS)
    actions = [*plan(desired, observed), *plan(desired, ObservedState())]
    told = {
        "status": repr(router_status(ROUTER, snapshot, {})),
        "status of the Broker": repr(broker_status(BROKER, snapshot, {}, NOW)),
        "actions": "\n".join(action.describe() for action in actions),
        "objects": repr(
            [one.manifest for one in actions if hasattr(one, "manifest") and one.manifest["kind"] != "Secret"]
        ),
        "entities": repr([router.entities for router in desired.mesh.routers]),
    }
    keys = {f"key {number}": line for number, line in enumerate(LEAF.key.splitlines()[1:-1])}
    secrets = {**PASSWORDS, **keys}
    assert "eve" in told["status"], "the user whose password cannot be used is named"
    assert "Secret" in {one.manifest["kind"] for one in actions if hasattr(one, "manifest")}
    assert "saslPassword" in told["entities"], "a reference to its file"
    found = [
        (name, where)
        for name, secret in secrets.items()
        for where, text in told.items()
        for form in forms(secret)
        if form in text
    ]
    assert found == []
