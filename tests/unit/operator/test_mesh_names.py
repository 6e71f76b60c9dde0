"""Names in the certificates of a mesh, and those that its listeners accept: also with a shared issuer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router, RouterTls
from waymesh_operator.router_entities.actions import changed_attributes
from waymesh_operator.router_entities.names import Entity
from waymesh_operator.tls.certificates import issue, subject_names
from waymesh_operator.tls.rollover import MeshTls, TlsRequest, next_tls
from waymesh_router.runtime.tls.peer_names import refused_name

pytestmark = pytest.mark.engine_independent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROUTER = Router(Ref("ns", "mesh"), size=2, listeners=(Listener("amqps", 5671, tls=True),))
STRANGERS = [("mesh", "other"), ("other", "ns"), ("mesh-mesh", "ns"), ("waymesh-operator", "ns"), ("ns", "mesh")]


def made(router: str = "mesh", namespace: str = "ns") -> MeshTls:
    return next_tls(TlsRequest(router, namespace), {}, {}, NOW)


def listeners(router: Router = ROUTER, cert_manager: bool = False) -> dict[str, Entity]:
    context = ClusterContext(OperatorSettings("i"), tls=None if cert_manager else made(), cert_manager=cert_manager)
    entities = desired_cluster(Resources(router), context).mesh.routers[0].shared
    return {entity.name.rpartition("/")[2]: entity for entity in entities if entity.type == "listener"}


def taken(listener: str, certificate: bytes) -> bool:
    wanted = listeners()[listener].attributes["peerNames"]
    names = {"subjectAltName": [("DNS", name) for name in subject_names(certificate)]}
    return refused_name(wanted, names) is None


def test_the_mesh_takes_its_routers_and_the_management_its_operator() -> None:
    tls = made()
    assert taken("mesh", tls.leaf.certificate)
    assert taken("management", tls.operator.certificate)
    assert not taken("mesh", tls.operator.certificate)
    assert not taken("management", tls.leaf.certificate)


@pytest.mark.parametrize(("name", "namespace"), STRANGERS)
def test_certificates_of_other_meshes_are_not_taken(name: str, namespace: str) -> None:
    other = made(name, namespace)
    for listener in ("mesh", "management"):
        assert not taken(listener, other.leaf.certificate)
        assert not taken(listener, other.operator.certificate)


def test_clients_are_not_asked_for_names() -> None:
    assert {name for name, entity in listeners().items() if entity.attributes.get("peerNames")} == {
        "mesh",
        "management",
    }


def test_cert_manager_is_asked_for_the_same_names() -> None:
    shared = ("shared", "ClusterIssuer", "cert-manager.io")
    router = replace(ROUTER, tls=RouterTls(issuer="CertManager", issuer_ref=shared))
    context = ClusterContext(OperatorSettings("i"), cert_manager=True)
    objects = desired_cluster(Resources(router), context).objects
    names = {o["metadata"]["name"]: set(o["spec"]["dnsNames"]) for o in objects if o["kind"] == "Certificate"}
    tls = made()
    assert names == {
        "mesh-tls": subject_names(tls.leaf.certificate),
        "mesh-operator-tls": subject_names(tls.operator.certificate),
    }
    assert listeners(router, cert_manager=True) == listeners()


def test_an_operator_certificate_of_before_is_issued_anew_by_the_same_authority() -> None:
    tls = made()
    before = issue(tls.authority, "waymesh-operator", ("waymesh-operator",), NOW)
    seen = replace(tls, operator=before).secrets("mesh")
    after = next_tls(TlsRequest("mesh", "ns"), seen, {}, NOW)
    assert (after.authority, after.leaf) == (tls.authority, tls.leaf)
    assert taken("management", after.operator.certificate)
    assert not taken("management", before.certificate)


def test_a_router_of_an_older_image_keeps_its_listener() -> None:
    """It does not know the attribute: the listener would be deleted, and the new one refused."""
    wanted = listeners()["management"]
    told = {name: value for name, value in wanted.attributes.items() if name != "peerNames"}
    assert changed_attributes(wanted, Entity("listener", wanted.name, told)) == {}
    assert "peerNames" in changed_attributes(wanted, Entity("listener", wanted.name, {**told, "peerNames": None}))
