"""Token profiles and limits of a Router: what is refused, the entities and files of the routers, and the conditions."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from waymesh_operator.errors import ManifestError
from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings, referenced_secrets
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.resources.validation import check
from waymesh_operator.router_entities.actions import plan_entities
from waymesh_operator.router_entities.names import LISTENER, ROUTER, TOKEN_PROFILE, Entity
from waymesh_operator.router_entities.tokens import UNKNOWN, ServiceAccountKeys, service_account_keys
from waymesh_operator.tls.rollover import TlsRequest, next_tls
from waymesh_schema.entities import entity_type
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent

CRDS = load_crds()
MESH = Ref("default", "mesh")
TLS = next_tls(TlsRequest("mesh", "default"), {}, {}, datetime(2026, 1, 1, tzinfo=UTC))
FOLDER = "/etc/waymesh/credentials"
PODS = {"name": "pods", "serviceAccounts": {"audience": "waymesh"}}
COMPANY = {
    "name": "company", "issuer": "https://login.example.com", "audience": "waymesh",
    "keysUrl": "https://login.example.com/certs", "caSecretRef": {"name": "login-ca"},
    "userClaim": "preferred_username", "groupsClaim": "groups", "algorithms": ["ES256", "EdDSA"],
    "clockSkewSeconds": 5, "allowNoExpiry": True, "refreshSeconds": 60, "minRefreshSeconds": 20, "keepKeysSeconds": 0,
}  # fmt: skip
FILE = {"name": "file", "issuer": "own", "audience": "waymesh", "keysSecretRef": {"name": "keys"}}
LISTENER_OF_TOKENS = {"name": "amqps", "port": 5671, "tls": True, "auth": "token", "tokenProfile": "pods"}
CLUSTER = service_account_keys("https://kubernetes.default.svc", [{"kty": "RSA", "kid": "1"}])
SECRETS: Mapping[str, Mapping[str, bytes] | None] = {"login-ca": {"ca.crt": b"CA"}, "keys": {"keys": b"JWKS"}}


def parsed(**spec: Any) -> Router:
    manifest = {"apiVersion": "waymesh.io/v1alpha1", "kind": "Router", "metadata": {"name": "mesh"}, "spec": spec}
    documents, problems = parse_text(yaml.safe_dump(manifest), "m.yaml")
    assert problems == []
    (router,) = check(documents, CRDS).routers
    return router


def refused(**spec: Any) -> str:
    with pytest.raises(ManifestError) as raised:
        parsed(**spec)
    return str(raised.value)


def desire(
    profile: Mapping[str, Any],
    secrets: Mapping[str, Mapping[str, bytes] | None] = SECRETS,
    cluster: ServiceAccountKeys = CLUSTER,
    **listener: Any,
) -> DesiredState:
    listeners = [{**LISTENER_OF_TOKENS, "tokenProfile": profile["name"], **listener}]
    router = parsed(tokenProfiles=[profile], listeners=listeners)
    context = ClusterContext(OperatorSettings("i"), tls=TLS, secrets=secrets, service_accounts=cluster)
    return desired_cluster(Resources(router), context)


def entities(desired: DesiredState, kind: str) -> list[Entity]:
    return [entity for entity in desired.mesh.routers[0].entities if entity.type == kind]


def clients(desired: DesiredState) -> list[Entity]:
    return [entity for entity in entities(desired, LISTENER) if "/listener/" in entity.name]


def files(desired: DesiredState) -> dict[str, bytes]:
    (secret,) = (o for o in desired.objects if o["metadata"]["name"] == "mesh-credentials")
    return {name: base64.b64decode(value) for name, value in secret["data"].items()}


@pytest.mark.parametrize(
    ("profile", "attributes"),
    [
        (PODS, {
            "issuer": "https://kubernetes.default.svc", "audience": "waymesh",
            "keysFile": f"{FOLDER}/service-accounts.jwks",
        }),
        (COMPANY, {
            "issuer": "https://login.example.com", "audience": "waymesh",
            "keysUrl": "https://login.example.com/certs", "caCertFile": f"{FOLDER}/token.company.ca.crt",
            "userClaim": "preferred_username", "groupsClaim": "groups", "algorithms": "ES256 EdDSA",
            "clockSkewSeconds": 5, "allowNoExpiry": True, "refreshSeconds": 60, "minRefreshSeconds": 20,
            "keepKeysSeconds": 0,
        }),
        (FILE, {"issuer": "own", "audience": "waymesh", "keysFile": f"{FOLDER}/token.file.keys"}),
    ],
)  # fmt: skip
def test_a_profile_is_an_entity_that_routers_take_and_its_listener_names_it(
    profile: dict[str, Any], attributes: dict[str, Any]
) -> None:
    desired = desire(profile)
    (entity,) = entities(desired, TOKEN_PROFILE)
    assert entity.attributes == attributes
    assert entity.name.startswith(f"k8s/default/Router/mesh/token/{profile['name']}/")
    validate_create(entity_type(TOKEN_PROFILE), {"name": entity.name, **entity.attributes})
    (listener,) = clients(desired)
    assert listener.attributes["tokenProfile"] == entity.name
    assert listener.attributes["saslMechanisms"] == "OAUTHBEARER XOAUTH2"
    assert listener.attributes["authenticatePeer"] is True
    shared = desired.mesh.routers[0].shared
    assert shared.index(entity) < shared.index(listener), "in the order in which routers read it"


@pytest.mark.parametrize(
    ("auth", "mechanisms"),
    [
        ("plain", "PLAIN OAUTHBEARER XOAUTH2"),
        ("scram", "SCRAM-SHA-512 SCRAM-SHA-256 OAUTHBEARER XOAUTH2"),
        ("mtls", "EXTERNAL OAUTHBEARER XOAUTH2"),
    ],
)
def test_tokens_beside_other_ways_to_log_in(auth: str, mechanisms: str) -> None:
    (listener,) = clients(desire(PODS, auth=auth))
    assert listener.attributes["saslMechanisms"] == mechanisms


def test_files_for_the_routers() -> None:
    assert json.loads(files(desire(PODS))["service-accounts.jwks"]) == {
        "issuer": "https://kubernetes.default.svc",
        "keys": [{"kty": "RSA", "kid": "1"}],
    }
    assert files(desire(COMPANY)) == {"token.company.ca.crt": b"CA"}
    assert files(desire(FILE)) == {"token.file.keys": b"JWKS"}
    router = parsed(tokenProfiles=[PODS, COMPANY, FILE])
    assert referenced_secrets(Resources(router)) == {"login-ca", "keys"}


def test_no_pod_is_restarted_for_tokens() -> None:
    def template(desired: DesiredState) -> Any:
        return next(o for o in desired.objects if o["kind"] == "StatefulSet")["spec"]["template"]

    assert template(desire(PODS)) == template(desire(COMPANY)) == template(desire(FILE))
    assert template(desire(PODS))["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("profile", "secrets", "message"),
    [
        (COMPANY, {"login-ca": None}, "tokenProfile company: Secret login-ca does not exist"),
        (COMPANY, {"login-ca": {"tls.crt": b"x"}}, "tokenProfile company: Secret login-ca lacks ca.crt"),
        (FILE, {"keys": {"jwks": b"x"}}, "tokenProfile file: Secret keys lacks keys"),
    ],
)
def test_a_missing_secret_is_told_and_routers_keep_what_they_have(
    profile: dict[str, Any], secrets: dict[str, dict[str, bytes] | None], message: str
) -> None:
    desired = desire(profile, secrets)
    verdict = desired.verdicts["Router", MESH]
    assert (verdict.resolved_refs, verdict.message) == (False, message)
    assert files(desired) == {}
    assert entities(desired, TOKEN_PROFILE) == entities(desire(profile), TOKEN_PROFILE)
    assert clients(desired) == clients(desire(profile))


def test_without_an_issuer_the_listener_stays_closed() -> None:
    desired = desire(PODS, cluster=ServiceAccountKeys(error="forbidden"))
    assert entities(desired, TOKEN_PROFILE) == clients(desired) == []
    verdict = desired.verdicts["Router", MESH]
    assert not verdict.resolved_refs
    assert "cannot be read: forbidden; listeners with this profile stay closed" in verdict.message
    known = desire(PODS, cluster=ServiceAccountKeys(CLUSTER.issuer, CLUSTER.keys, "away"))
    assert (known.verdicts["Router", MESH].spared, files(known)) == (True, files(desire(PODS)))
    assert clients(known) == clients(desire(PODS))


@pytest.mark.parametrize(
    ("issuer", "keys"), [("", [{}]), (None, [{}]), ("i", []), ("i", None), ("i", ["x"]), (["i"], [{}])]
)
def test_an_api_server_that_tells_no_issuer_or_no_keys(issuer: Any, keys: Any) -> None:
    with pytest.raises(ValueError, match="returned no issuer or no keys"):
        service_account_keys(issuer, keys)
    assert not UNKNOWN.issuer


def test_a_changed_profile_is_there_before_its_listener_and_the_old_one_goes_last() -> None:
    def live(desired: DesiredState) -> list[Entity]:
        return [*entities(desired, TOKEN_PROFILE), *clients(desired)]

    old = live(desire(FILE))
    steps = plan_entities("mesh-0", live(desire({**FILE, "audience": "other"})), old)
    told = [(step.sign, step.entity.type) for step in steps]
    assert told == [("-", LISTENER), ("+", TOKEN_PROFILE), ("+", LISTENER), ("-", TOKEN_PROFILE)]


def test_limits_of_a_listener_are_those_of_the_router_and_go_with_their_field() -> None:
    limits: dict[str, Any] = {
        "maxConnections": 100, "maxOpeningConnections": 20, "maxSessions": 8, "maxLinks": 50, "maxFrameSize": 65536,
        "maxSessionFrames": 1000, "linkCapacity": 10, "idleTimeoutSeconds": 0, "initialHandshakeTimeoutSeconds": 5,
    }  # fmt: skip
    (limited,), (free,) = clients(desire(PODS, **limits)), clients(desire(PODS))
    assert {name: limited.attributes[name] for name in limits} == limits
    assert {free.attributes[name] for name in limits} == {None}
    validate_create(entity_type(LISTENER), {k: v for k, v in limited.attributes.items() if v is not None})
    assert [step.sign for step in plan_entities("mesh-0", [free], [limited])] == ["-", "+"]
    assert plan_entities("mesh-0", [free], [Entity(LISTENER, free.name, {**free.attributes, "maxLinks": 32768})]) == []


@pytest.mark.parametrize(
    ("quantity", "size"), [("400Mi", 400 << 20), ("2Gi", 2 << 30), ("1Ti", 1 << 40), ("500M", 500_000_000), (0, 0)]
)
def test_the_memory_of_a_router_changes_live(quantity: Any, size: int) -> None:
    def wanted(**spec: Any) -> Entity:
        desired = desired_cluster(Resources(parsed(**spec)), ClusterContext(OperatorSettings("i"), tls=TLS))
        (found,) = entities(desired, ROUTER)
        seed = next(o for o in desired.objects if o["kind"] == "ConfigMap")["data"]["mesh-0.json"]
        assert json.loads(seed)[0][1].get("maxMemory") == found.attributes["maxMemory"]
        return found

    limited = wanted(maxMemory=quantity)
    assert limited.attributes["maxMemory"] == size
    (update,) = plan_entities("mesh-0", [wanted()], [limited])
    assert (update.sign, update.entity.type) == ("~", ROUTER)


def test_the_time_after_which_stalled_links_are_reported_changes_live() -> None:
    def wanted(**spec: Any) -> Entity:
        desired = desired_cluster(Resources(parsed(**spec)), ClusterContext(OperatorSettings("i"), tls=TLS))
        (found,) = entities(desired, ROUTER)
        return found

    (update,) = plan_entities("mesh-0", [wanted()], [wanted(stuckAfterSeconds=0)])
    assert (update.sign, update.entity.attributes["stuckAfterSeconds"]) == ("~", 0)
    assert plan_entities("mesh-0", [Entity(ROUTER, "mesh-0", {"stuckAfterSeconds": 10})], [wanted()]) == []
    assert "stuckAfterSeconds" in refused(stuckAfterSeconds=-1)


def test_the_threads_of_a_router_are_in_its_seed_alone() -> None:
    """No running router is told: it reads the number when it starts."""

    def seeded(**spec: Any) -> Any:
        desired = desired_cluster(Resources(parsed(**spec)), ClusterContext(OperatorSettings("i"), tls=TLS))
        (found,) = entities(desired, ROUTER)
        assert "workerThreads" not in found.attributes
        seed = next(o for o in desired.objects if o["kind"] == "ConfigMap")["data"]["mesh-0.json"]
        return json.loads(seed)[0][1].get("workerThreads")

    assert [seeded(), seeded(workerThreads=1), seeded(workerThreads=3)] == [None, None, 3]
    assert "workerThreads" in refused(workerThreads=0)
    assert "workerThreads" in refused(workerThreads=65)


def test_what_no_router_could_use_is_refused() -> None:
    def profile(**changes: Any) -> str:
        made = {name: value for name, value in {**FILE, **changes}.items() if value is not None}
        return refused(tokenProfiles=[made])

    def listener(**changes: Any) -> str:
        return refused(tokenProfiles=[PODS], listeners=[{**LISTENER_OF_TOKENS, **changes}])

    assert "set serviceAccounts, or issuer and audience" in profile(issuer=None)
    assert "set serviceAccounts, or issuer and audience" in profile(audience=None)
    assert "serviceAccounts uses issuer, keys and claims" in profile(serviceAccounts={"audience": "a"})
    assert "set exactly one of keysUrl and keysSecretRef" in profile(keysSecretRef=None)
    assert "set exactly one of keysUrl and keysSecretRef" in profile(keysUrl="https://a/k")
    assert "are only valid with keysUrl" in profile(caSecretRef={"name": "a"})
    assert "must not be more than refreshSeconds" in profile(
        keysSecretRef=None, keysUrl="https://a/k", refreshSeconds=20
    )
    for url in ("http://a/k", "https://", "https://u:p@a/k", "https://a/k#f", "https://a:0/k", "https://a/ k"):
        assert "must match" in profile(keysSecretRef=None, keysUrl=url), url
    assert "must be one of" in profile(algorithms=["HS256"])
    assert "set tls: true" in listener(tls=False)
    assert "set auth: token" in listener(auth="none")
    assert "auth token needs a tokenProfile" in refused(listeners=[{**LISTENER_OF_TOKENS, "tokenProfile": None}])
    assert "must be the name of one of spec.tokenProfiles" in listener(tokenProfile="other")
    assert "must be the name of one of spec.tokenProfiles" in refused(listeners=[LISTENER_OF_TOKENS])
    assert "users is only valid with auth plain or scram" in listener(users={"secretRef": {"name": "u"}})
    assert "needs a unit, as in 400Mi" in refused(maxMemory=400)
    for text in ("400", "lots", "400Ki", "4.5Gi", "-1Mi"):
        assert "must match" in refused(maxMemory=text), text
