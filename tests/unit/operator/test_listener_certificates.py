"""Listeners with a certificate and client authorities of the user's own: files, sslProfiles, conditions, no restart."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings, referenced_secrets
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.router_entities.names import LISTENER, SSL_PROFILE, Entity
from waymesh_operator.router_entities.verdicts import judge_router
from waymesh_operator.tls.rollover import TlsRequest, next_tls

pytestmark = pytest.mark.engine_independent

MESH = Ref("ns", "mesh")
TLS = next_tls(TlsRequest("mesh", "ns"), {}, {}, datetime(2026, 1, 1, tzinfo=UTC))
PLAIN = Listener("shop", 5671, tls=True, auth="mtls")
OWN = replace(PLAIN, certificate="shop-tls", authorities="partners", revocation=True)
SECRETS: Mapping[str, Mapping[str, bytes] | None] = {
    "shop-tls": {"tls.crt": b"certificate", "tls.key": b"key", "ca.crt": b"of the issuer"},
    "partners": {"ca.crt": b"authorities", "ca.crl": b"lists"},
}
FOLDER = "/etc/waymesh/credentials"
MESH_FILES = {
    "certFile": "/etc/waymesh/tls/tls.crt",
    "privateKeyFile": "/etc/waymesh/tls/tls.key",
    "caCertFile": "/etc/waymesh/tls/ca.crt",
}
OWN_CERTIFICATE = {
    "certFile": f"{FOLDER}/listener.shop.tls.crt",
    "privateKeyFile": f"{FOLDER}/listener.shop.tls.key",
}
OWN_AUTHORITIES = {"caCertFile": f"{FOLDER}/listener.shop.ca.crt"}


def desire(listener: Listener, secrets: Mapping[str, Mapping[str, bytes] | None] = SECRETS) -> DesiredState:
    router = Router(MESH, listeners=(listener,), uid="u-1")
    context = ClusterContext(OperatorSettings("registry/router:1"), tls=TLS, secrets=secrets)
    return desired_cluster(Resources(router), context)


def listener_of(desired: DesiredState) -> Entity:
    shared = desired.mesh.routers[0].shared
    return next(e for e in shared if e.type == LISTENER and e.name == "k8s/ns/Router/mesh/listener/shop")


def profile_of(desired: DesiredState) -> Entity:
    name = listener_of(desired).attributes["sslProfile"]
    return next(e for e in desired.mesh.routers[0].shared if e.type == SSL_PROFILE and e.name == name)


def files(desired: DesiredState) -> dict[str, bytes]:
    (secret,) = (o for o in desired.objects if o["metadata"]["name"] == "mesh-credentials")
    return {name: base64.b64decode(value) for name, value in secret["data"].items()}


@pytest.mark.parametrize(
    ("listener", "own"),
    [
        (PLAIN, {}),
        (replace(OWN, authorities=""), OWN_CERTIFICATE),
        (replace(OWN, certificate="", revocation=False), OWN_AUTHORITIES),
        (replace(OWN, revocation=False), OWN_CERTIFICATE | OWN_AUTHORITIES),
        (OWN, OWN_CERTIFICATE | OWN_AUTHORITIES | {"crlFile": f"{FOLDER}/listener.shop.ca.crl"}),
    ],
)
def test_what_a_listener_does_not_name_is_that_of_the_mesh(listener: Listener, own: dict[str, str]) -> None:
    assert profile_of(desire(listener)).attributes == MESH_FILES | own


def test_the_profile_of_a_listener_is_named_after_it_and_after_what_it_says() -> None:
    assert profile_of(desire(PLAIN)).name == "mesh"
    variants = (OWN, replace(OWN, revocation=False), replace(OWN, authorities=""))
    names = {profile_of(desire(one)).name for one in variants}
    assert len(names) == 3
    assert all(name.startswith("k8s/ns/Router/mesh/listener/shop/tls-") for name in names)


def test_the_files_are_in_the_secret_of_credentials_and_no_more_than_is_needed() -> None:
    assert files(desire(OWN)) == {
        "listener.shop.tls.crt": b"certificate",
        "listener.shop.tls.key": b"key",
        "listener.shop.ca.crt": b"authorities",
        "listener.shop.ca.crl": b"lists",
    }
    assert "listener.shop.ca.crt" not in files(desire(replace(OWN, authorities="")))
    assert referenced_secrets(Resources(Router(MESH, listeners=(OWN,)))) == {"shop-tls", "partners"}


def test_a_renewed_certificate_changes_one_secret_and_restarts_nothing() -> None:
    renewed = {**SECRETS, "shop-tls": {"tls.crt": b"new", "tls.key": b"new"}}
    before, after = desire(OWN), desire(OWN, renewed)
    changed = [
        old["metadata"]["name"] for old, new in zip(before.objects, after.objects, strict=True) if old != new
    ]
    assert changed == ["mesh-credentials"]
    assert before.mesh == after.mesh


def test_a_certificate_for_a_listener_restarts_no_pod() -> None:
    templates = [
        next(o for o in desire(one).objects if o["kind"] == "StatefulSet")["spec"]["template"] for one in (PLAIN, OWN)
    ]
    assert templates[0] == templates[1]


@pytest.mark.parametrize(
    ("secrets", "reason", "message"),
    [
        ({"shop-tls": None}, "SecretMissing", "listener shop: Secret shop-tls does not exist"),
        ({"shop-tls": {"tls.crt": b"x"}}, "SecretIncomplete", "listener shop: Secret shop-tls lacks tls.key"),
        ({"partners": None}, "SecretMissing", "listener shop: Secret partners does not exist"),
        ({"partners": {"ca.crl": b"x"}}, "SecretIncomplete", "listener shop: Secret partners lacks ca.crt"),
        ({"partners": {"ca.crt": b"x"}}, "SecretIncomplete", "listener shop: Secret partners lacks ca.crl"),
    ],
)
def test_an_unusable_secret_is_told_and_the_listener_never_falls_back_to_the_mesh(
    secrets: dict[str, dict[str, bytes] | None], reason: str, message: str
) -> None:
    desired = desire(OWN, {**SECRETS, **secrets})
    verdict = desired.verdicts["Router", MESH]
    assert (verdict.resolved_refs, verdict.reason, verdict.message) == (False, reason, message)
    assert listener_of(desired) == listener_of(desire(OWN)), "routers refuse what they cannot load"
    assert profile_of(desired) == profile_of(desire(OWN))
    assert files(desired) == {}
    assert not desired.obstacles.starting, "the rest of the mesh goes on"


def test_all_secrets_that_are_missing_are_named_at_once() -> None:
    listeners = tuple(
        Listener(f"n{k}", 5670 + k, tls=True, auth="scram", users="people", certificate=f"tls-{k}") for k in range(6)
    )
    message = judge_router(Router(MESH, listeners=listeners[:2]), {}, {}).message
    users = "Secret people with the users of the listeners does not exist: no user can log in"
    missing = [f"listener n{k}: Secret tls-{k} does not exist" for k in range(6)]
    assert message == "; ".join((users, *missing[:2]))
    verdict = judge_router(Router(MESH, listeners=listeners), {}, {})
    assert (verdict.accepted, verdict.resolved_refs, verdict.reason) == (True, False, "SecretMissing")
    assert verdict.message == "; ".join((users, *missing[:4], "and 2 more"))
    there = {"people": {"alice": b"secret"}, **{f"tls-{k}": {"tls.crt": b"x", "tls.key": b"x"} for k in range(6)}}
    assert judge_router(Router(MESH, listeners=listeners), there, {}).good
