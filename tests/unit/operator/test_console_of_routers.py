"""`spec.console`: what it accepts, and the listener that it makes."""

from __future__ import annotations

import pytest

from waymesh_operator.errors import ManifestError
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.listener import Http
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.validation import Checked, check

pytestmark = pytest.mark.engine_independent

ROUTER = "apiVersion: waymesh.io/v1alpha1\nkind: Router\nmetadata: {name: mesh}\n"
CRDS = load_crds()
WHO = "auth: plain, users: {secretRef: {name: people}}"


def accept(text: str) -> Checked:
    documents, problems = parse_text(text, "m.yaml")
    assert problems == []
    return check(documents, CRDS)


def refuse(text: str) -> list[str]:
    documents, _ = parse_text(text, "m.yaml")
    with pytest.raises(ManifestError) as raised:
        check(documents, CRDS)
    return [str(problem) for problem in raised.value.problems]


def spec(console: str, listeners: str = "") -> str:
    others = f", listeners: [{listeners}]" if listeners else ""
    return f"{ROUTER}spec: {{console: {console}{others}}}\n"


def test_it_is_off_by_default() -> None:
    for text in (spec("{}"), spec("{enabled: false, auth: mtls}"), f"{ROUTER}spec: {{}}\n"):
        (router,) = accept(text).routers
        assert [one.name for one in router.listeners] == ["amqp"]


def test_it_is_a_listener_with_tls_and_a_login() -> None:
    (router,) = accept(spec(f"{{enabled: true, {WHO}, management: write, expose: {{type: LoadBalancer}}}}")).routers
    _, console = router.listeners
    assert (console.name, console.port, console.tls, console.auth) == ("console", 8443, True, "plain")
    assert (console.users, console.management, console.http) == ("people", "write", Http(console=True))
    assert console.expose is not None
    assert console.expose.outside


@pytest.mark.parametrize(
    ("console", "listeners", "why"),
    [
        ("{enabled: true}", "", "its users log in"),
        ("{enabled: true, auth: none}", "", "auth"),
        ("{enabled: true, auth: scram}", "", "auth"),
        ("{enabled: true, auth: token}", "", "needs a tokenProfile"),
        ("{enabled: true, auth: token, tokenProfile: x}", "", "must be the name of one of spec.tokenProfiles"),
        ("{enabled: true, auth: mtls, users: {secretRef: {name: a}}}", "", "users is only valid with auth plain"),
        (f"{{enabled: true, {WHO}, clientAuthorities: {{secretRef: {{name: a}}}}}}", "", "set auth: mtls"),
        ("{enabled: true, auth: mtls, port: 9090}", "", "are reserved"),
        ("{enabled: true, auth: mtls, port: 443}", "", "1024"),
        ("{enabled: true, auth: mtls, management: none}", "", "management"),
        ("{enabled: true, auth: mtls, expose: {type: LoadBalancer, allowUnprotected: true}}", "", "allowUnprotected"),
        ("{enabled: true, auth: mtls, expose: {type: Gateway, gatewayRef: {name: g}}}", "", "set expose.host"),
        ("{enabled: true, auth: mtls}", "{name: console, port: 5672}", "no other one has this name or its port"),
        ("{enabled: true, auth: mtls}", "{name: a, port: 8443}", "no other one has this name or its port"),
        (
            f"{{enabled: true, {WHO}}}",
            "{name: a, port: 5672, auth: scram, users: {secretRef: {name: others}}}",
            "the same Secret for users",
        ),
        (
            "{enabled: true, auth: mtls, clientAuthorities: {secretRef: {name: ca}}}",
            "{name: a, port: 5672, role: edge, tls: true, auth: mtls, clientAuthorities: {secretRef: {name: ca}}}",
            "must not share clientAuthorities",
        ),
    ],
)
def test_what_is_refused(console: str, listeners: str, why: str) -> None:
    assert any(why in line for line in refuse(spec(console, listeners))), refuse(spec(console, listeners))
