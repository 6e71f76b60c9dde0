"""A mesh whose certificates come from cert-manager."""

from __future__ import annotations

import base64

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.errors import WaymeshError
from waymesh_operator.places.kubernetes.objects import labels_of
from waymesh_operator.places.kubernetes.worker.place import ISSUED_ANNOTATION
from waymesh_operator.tls.rollover import TlsRequest, next_tls

pytestmark = pytest.mark.engine_independent

CERT_MANAGER = {"issuer": "CertManager", "authority": 1}


def issue(lab: Lab) -> None:
    """What cert-manager does for the Certificates that it finds."""
    tls = next_tls(TlsRequest("mesh", NAMESPACE), {}, {}, lab.time)
    for name, data in tls.secrets("mesh").items():
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels_of("mesh"),
            "annotations": {ISSUED_ANNOTATION: name},
        }
        lab.kube.put(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": encoded}
        )


def names(lab: Lab) -> set[str]:
    """What there is of cert-manager."""
    return {f"{kind} {name}" for kind, _, name in lab.kube.objects if kind in ("Issuer", "Certificate")}


def test_worker_stalls_without_cert_manager_and_goes_on_with_it_and_leaves_it_again() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2, tls=CERT_MANAGER)
        for _ in range(3):
            await lab.turn()
        assert lab.condition("Stalled")[0] == "True"
        assert not lab.mesh.routers
        lab.kube.unknown_kinds.clear()
        lab.later(30)
        await lab.turn()
        assert names(lab) == {
            "Issuer mesh-selfsigned", "Issuer mesh-ca", "Certificate mesh-ca", "Certificate mesh-tls",
            "Certificate mesh-operator-tls",
        }  # fmt: skip
        issue(lab)
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"
        writes = len(lab.kube.writes())
        lab.later(30)
        await lab.turn()
        assert len(lab.kube.writes()) == writes
        authority = lab.kube.objects["Secret", NAMESPACE, "mesh-ca"]["data"]["tls.crt"]
        lab.router(2)
        await lab.settle()
        assert names(lab) == set()
        assert lab.kube.objects["Secret", NAMESPACE, "mesh-ca"]["data"]["tls.crt"] == authority
        assert lab.condition("Ready")[0] == "True"

    run(story)


def test_cert_manager_is_not_told_to_write_over_a_secret_of_another_router() -> None:
    owner = {"kind": "Router", "name": "other", "uid": "u-other", "controller": True}
    metadata = {"name": "mesh-tls", "namespace": NAMESPACE, "ownerReferences": [owner]}

    async def story(lab: Lab) -> None:
        lab.kube.unknown_kinds.clear()
        lab.kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}})
        lab.router(1, tls=CERT_MANAGER)
        with pytest.raises(WaymeshError, match="Secret mesh-tls exists and belongs to Router other; it is not changed"):
            await lab.turn()
        assert "Certificate mesh-tls" not in names(lab)
        assert lab.condition("Stalled") == ("True", "Conflicted")

    run(story)
