"""When certificates and lists of listeners end: what is told, from when on it is a warning, and where."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.kubernetes.monitoring import Metrics
from waymesh_operator.places.kubernetes.router_status import router_status
from waymesh_operator.planning.plan import ObservedState
from waymesh_operator.planning.status.conditions import MeshSnapshot, ends_in_seconds
from waymesh_operator.resources.crds import findings, load_crds
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.tls.certificates import Credential, issue, new_ca

pytestmark = pytest.mark.engine_independent

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
CA = new_ca("partners", BEGIN)
LEAF = issue(CA, "shop", ["shop.example"], BEGIN)
"""Ends after 90 days."""
SHOP = Listener("shop", 5671, tls=True, auth="mtls", certificate="shop-tls", authorities="partners", revocation=True)
ROUTER = Router(Ref("ns", "mesh"), size=0, listeners=(Listener("amqp", 5672), SHOP), uid="u-1")


def revocation_list(ca: Credential, end: datetime, days: int = 7) -> bytes:
    """An empty list that is good for some days."""
    issuer = x509.load_pem_x509_certificate(ca.certificate).subject
    key = serialization.load_pem_private_key(ca.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    found = x509.CertificateRevocationListBuilder(issuer, end - days * DAY, end).sign(key, hashes.SHA256())
    return found.public_bytes(serialization.Encoding.PEM)


LISTS = revocation_list(CA, BEGIN + 200 * DAY)
SECRETS: Mapping[str, Mapping[str, bytes] | None] = {
    "shop-tls": {"tls.crt": LEAF.certificate + CA.certificate, "tls.key": LEAF.key},
    "partners": {"ca.crt": CA.certificate, "ca.crl": LISTS},
}


def status_at(now: datetime, secrets: Mapping[str, Mapping[str, bytes] | None] = SECRETS) -> dict[str, Any]:
    context = ClusterContext(OperatorSettings("image"), secrets=secrets)
    desired = desired_cluster(Resources(ROUTER), context)
    status = router_status(ROUTER, MeshSnapshot(desired, ObservedState(), now, secrets=secrets), {})
    assert list(findings(load_crds()["Router"].schema["properties"]["status"], status)) == []
    return status


def condition(status: Mapping[str, Any]) -> tuple[str, str, str]:
    found = next(one for one in status["conditions"] if one["type"] == "CertificateExpiring")
    return found["status"], found["reason"], found["message"]


def test_status_has_the_ends_of_each_listener_with_something_of_its_own() -> None:
    (row,) = status_at(BEGIN)["listeners"]
    assert row == {
        "name": "shop",
        "certificateNotAfter": "2026-04-01T00:00:00Z",
        "authoritiesNotAfter": "2035-12-30T00:00:00Z",
        "revocationNotAfter": "2026-07-20T00:00:00Z",
    }
    assert condition(status_at(BEGIN))[:2] == ("False", "NotExpiring")


@pytest.mark.parametrize(
    ("days_before", "expected"),
    [
        (14.1, ("False", "NotExpiring")),
        (13.9, ("True", "CertificateEndsSoon")),
        (0, ("True", "CertificateEnded")),
    ],
)
def test_two_weeks_before_the_end_it_is_a_warning(days_before: float, expected: tuple[str, str]) -> None:
    found = condition(status_at(BEGIN + 90 * DAY - days_before * DAY))
    assert found[:2] == expected
    if expected[0] == "True":
        verb = "ended" if not days_before else "ends"
        assert found[2] == (
            f"listener shop: the certificate in Secret shop-tls {verb} at 2026-04-01T00:00:00Z"
        )


@pytest.mark.parametrize(("hours_left", "warned"), [(34, False), (33, True)])
def test_of_what_lives_short_the_last_fifth_counts(hours_left: int, warned: bool) -> None:
    lists = revocation_list(CA, BEGIN + 7 * DAY) + LISTS
    secrets = {**SECRETS, "partners": {"ca.crt": CA.certificate, "ca.crl": lists}}
    status = status_at(BEGIN + 7 * DAY - timedelta(hours=hours_left), secrets)
    assert status["listeners"][0]["revocationNotAfter"] == "2026-01-08T00:00:00Z"
    assert (condition(status)[0] == "True") is warned
    assert ("a revocation list in Secret partners ends" in condition(status)[2]) is warned


def test_of_a_chain_the_first_end_counts() -> None:
    old = new_ca("old", BEGIN - 3640 * DAY)
    secrets = {**SECRETS, "shop-tls": {"tls.crt": LEAF.certificate + old.certificate, "tls.key": LEAF.key}}
    status = status_at(BEGIN, secrets)
    assert status["listeners"][0]["certificateNotAfter"] == "2026-01-11T00:00:00Z"
    assert condition(status)[0] == "True"


@pytest.mark.parametrize("broken", [b"", b"no PEM", LEAF.certificate[:-60], b"\xff"])
def test_what_cannot_be_read_has_no_end(broken: bytes) -> None:
    secrets = {"shop-tls": {"tls.crt": broken, "tls.key": b""}, "partners": {"ca.crt": broken, "ca.crl": broken}}
    assert "listeners" not in status_at(BEGIN, secrets)
    lists = {"ca.crt": CA.certificate, "ca.crl": b"-----BEGIN X509 CRL-----\nbroken"}
    (row,) = status_at(BEGIN, {"shop-tls": None, "partners": lists})["listeners"]
    assert row.keys() == {"name", "authoritiesNotAfter"}


def test_metrics_follow_the_status_and_go_with_the_mesh() -> None:
    metrics = Metrics()

    def series() -> dict[str, float]:
        samples = [sample for family in metrics.ends.collect() for sample in family.samples]
        return {f"{sample.labels['listener']} {sample.labels['field']}": sample.value for sample in samples}

    metrics.listeners_end("ns", "mesh", ends_in_seconds(status_at(BEGIN)))
    assert series()["shop certificateNotAfter"] == (BEGIN + 90 * DAY).timestamp()
    assert len(series()) == 3
    metrics.listeners_end("ns", "mesh", ends_in_seconds(status_at(BEGIN, {**SECRETS, "partners": None})))
    assert list(series()) == ["shop certificateNotAfter"]
    metrics.listeners_end("ns", "mesh", {})
    assert series() == {}
