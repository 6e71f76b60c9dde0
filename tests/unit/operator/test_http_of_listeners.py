"""Listeners with `http`: what is refused, the router's listener, and the Services."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.kit import CRDS, resource
from tests.unit.operator.test_operator_objects import CONTEXT
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.resources.crds import findings, rule_findings
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import parse_router
from waymesh_schema.entities import entity_type
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent

NORMAL = {"host": "", "port": "8443", "name": "x"}


def manifest(http: dict[str, Any] | None, **listener: Any) -> dict[str, Any]:
    one = {"name": "web", "port": 8443, **listener} | ({} if http is None else {"http": http})
    return resource("Router", "mesh", size=1, listeners=[one])


def wrong(made: dict[str, Any]) -> list[str]:
    schema = CRDS["Router"].schema
    broken = [message for _, message in findings(schema["properties"]["spec"], made["spec"])]
    return broken or [message for _, message in rule_findings(schema, made)]


def desired(made: dict[str, Any]) -> DesiredState:
    assert not wrong(made), "the test's own manifest"
    return desired_cluster(Resources(parse_router(made)), CONTEXT)


def attributes(made: dict[str, Any]) -> dict[str, Any]:
    """Those of the router's listener, checked as the router checks them."""
    shared = desired(made).mesh.routers[0].shared
    (found,) = (one for one in shared if one.name.endswith("listener/web"))
    given = {name: value for name, value in found.attributes.items() if value is not None}
    return validate_create(entity_type("listener"), given)


@pytest.mark.parametrize(
    ("http", "listener", "word"),
    [
        ({"healthz": True}, {"auth": "scram"}, "auth none"),
        ({"healthz": True}, {"tls": True, "auth": "mtls"}, "auth none"),
        ({"websockets": False}, {}, "unknown field"),
        ({"allowedOrigins": ["shop.example.org"]}, {}, "must match"),
        ({"allowedOrigins": ["https://a.org/page"]}, {}, "must match"),
        ({"allowedOrigins": ["https://a.org,https://b.org"]}, {}, "must match"),
        ({"allowedOrigins": ["https://a.org https://b.org"]}, {}, "must match"),
        ({"allowedOrigins": ["https://a.org", "https://a.org"]}, {}, "duplicates"),
        ({}, {"expose": {"type": "Ingress", "host": "a.org", "allowUnprotected": True}}, "set tls: true"),
    ],
)
def test_refused(http: dict[str, Any], listener: dict[str, Any], word: str) -> None:
    (message,) = wrong(manifest(http, **listener))
    assert word in message


def test_clients_connect_over_web_socket_alone() -> None:
    origins = ["https://shop.example.org", "http://[::1]:8080", "*"]
    found = attributes(manifest({"allowedOrigins": origins}, tls=True, auth="plain"))
    assert (found["http"], found["websockets"], found["metrics"], found["healthz"]) == (True, True, False, False)
    assert found["allowedOrigins"].split() == origins
    assert (found["authenticatePeer"], found["requireSsl"]) == (True, True)


@pytest.mark.parametrize(
    "listener",
    [
        {"auth": "scram", "connectionRate": "1/1", "maxConnections": 5},
        {"tls": True, "auth": "mtls"},
        {"tenancy": {"mode": "ByHostname"}},
        {"tenancy": {"mode": "Fixed", "vhost": "acme"}, "management": "read"},
        {"role": "route-container"},
    ],
    ids=str,
)
def test_the_other_fields_mean_the_same(listener: dict[str, Any]) -> None:
    over = attributes(manifest({}, **listener))
    plain = attributes(manifest(None, **listener))
    assert {name for name in over if over[name] != plain[name]} == {"http", "metrics", "healthz"}


def test_health_checks_are_answered_where_nobody_logs_in() -> None:
    assert attributes(manifest({"healthz": True}))["healthz"] is True


def test_a_listener_without_http_has_the_defaults_of_a_router() -> None:
    plain = validate_create(entity_type("listener"), NORMAL)
    found = attributes(manifest(None))
    names = ("http", "websockets", "metrics", "healthz", "allowedOrigins")
    assert [found[name] for name in names] == [plain[name] for name in names]


@pytest.mark.parametrize(("tls", "protocol"), [(False, "kubernetes.io/ws"), (True, "kubernetes.io/wss")])
def test_services_name_the_protocol(tls: bool, protocol: str) -> None:
    made = manifest({}, tls=tls, auth="mtls" if tls else "none", expose={"type": "ClusterIP"})
    services = {o["metadata"]["name"]: o for o in desired(made).objects if o["kind"] == "Service"}
    told = [services[name]["spec"]["ports"][0]["appProtocol"] for name in ("mesh", "mesh-out-web")]
    assert told == [protocol, protocol]
