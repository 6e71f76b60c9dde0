"""What the operator says of a mesh full of secrets and in trouble: log in both formats, status, Events, objects."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_client.errors import ConnectionFailed
from waymesh_operator.places.kubernetes.monitoring import set_up
from waymesh_operator.tls.certificates import issue, new_ca

pytestmark = pytest.mark.engine_independent

PASSWORDS = {name: f"planted-{name}-9d1f" for name in ("alice", "broker", "later")} | {"eve": "planted-\aeve-9d1f"}
CA = new_ca("own", datetime(2026, 1, 1, tzinfo=UTC))
LEAF = issue(CA, "shop", ["shop.example"], datetime(2026, 1, 1, tzinfo=UTC))
LISTENERS = [
    {"name": "amqp", "port": 5672, "auth": "scram", "users": {"secretRef": {"name": "people"}}},
    {"name": "shop", "port": 5671, "tls": True, "certificate": {"secretRef": {"name": "shop"}}},
]
BROKER = {
    "endpoints": [{"host": "b", "port": 5671}],
    "auth": {"mechanism": "PLAIN", "secretRef": {"name": "broker"}},
    "tls": {},
}


def encoded(value: str | bytes) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()


def secret(lab: Lab, name: str, **values: str | bytes) -> None:
    data = {key.replace("_", "."): encoded(value) for key, value in values.items()}
    metadata = {"name": name, "namespace": NAMESPACE}
    lab.kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


@contextlib.contextmanager
def logged(form: str) -> Iterator[io.StringIO]:
    """All that is logged meanwhile, as the operator writes it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("kopf", "aiohttp.access", "kubernetes", "proton")}
    out = io.StringIO()
    root.handlers = []
    try:
        set_up(form, "debug")
        for name in levels:
            logging.getLogger(name).setLevel(logging.DEBUG)
        (handler,) = root.handlers
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(out)
        yield out
    finally:
        root.handlers = handlers
        root.setLevel(level)
        for name, former in levels.items():
            logging.getLogger(name).setLevel(former)


def forms(text: str) -> set[str]:
    """As it is, as Python and JSON write it, and in base64 behind anything."""
    data = text.encode()
    coded = {base64.b64encode(b"\0" * before + data).decode()[4:-4] for before in (1, 2, 3)}
    return {text, repr(text)[1:-1], json.dumps(text)[1:-1], data.hex(), *coded}


async def mesh_in_trouble(lab: Lab) -> None:
    """Passwords that can and cannot be used, a key that does not fit, routers that refuse and that fail."""
    secret(lab, "people", alice=PASSWORDS["alice"], eve=PASSWORDS["eve"])
    secret(lab, "shop", tls_crt=LEAF.certificate, tls_key=LEAF.key)
    secret(lab, "broker", username="waymesh", password=PASSWORDS["broker"])
    lab.router(2, listeners=LISTENERS)
    await lab.settle()
    lab.mesh.refuse = lambda kind, name: "not today" if kind == "connector" else ""
    lab.add("Broker", "b", **BROKER)
    await lab.until(lambda: "not today" in str(lab.status("Broker", "b")))
    lab.mesh.refuse = lambda kind, name: ""
    lab.later(600)
    await lab.settle()
    lab.kube.edit("Secret", NAMESPACE, "broker", lambda body: body["data"].update(password=encoded(PASSWORDS["later"])))
    stranger = issue(CA, "other", ["other.example"], datetime(2026, 1, 1, tzinfo=UTC))
    lab.kube.edit("Secret", NAMESPACE, "shop", lambda body: body["data"].update({"tls.key": encoded(stranger.key)}))
    lab.later(600)
    await lab.settle()

    def fails(router: str, verb: str, what: str) -> None:
        raise ConnectionFailed(router, 55672, "connection refused")

    lab.mesh.fail = fails
    lab.later(600)
    await lab.until(lambda: lab.condition("Ready", "Broker", "b")[0] != "True")


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_that_the_operator_says_has_a_secret(form: str) -> None:
    told: dict[str, str] = {}

    async def story(lab: Lab) -> None:
        await mesh_in_trouble(lab)
        told["events"] = repr(lab.kube.events())
        for (kind, _, name), body in lab.kube.objects.items():
            if kind != "Secret":
                told[f"{kind} {name}"] = repr(body)

    with logged(form) as out:
        run(story)
    told["log"] = out.getvalue()
    assert "not today" in told["log"], "a router refused the Broker"
    assert "eve" in told["Router mesh"], "the user whose password cannot be used is named"
    assert told["log"].startswith("{" if form == "json" else "20"), told["log"][:200]
    key = {f"key, line {number}": line for number, line in enumerate(LEAF.key.decode().splitlines()[1:-1])}
    found = [
        (name, where)
        for name, planted in {**PASSWORDS, **key}.items()
        for where, text in told.items()
        if any(one in text for one in forms(planted))
    ]
    assert found == []
