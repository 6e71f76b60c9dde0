"""The operator gives routers the keys of ServiceAccount tokens, and what it does when the API server does not."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from tests.operator.kit import NAMESPACE, Lab, lab
from waymesh_operator.errors import KubeError

pytestmark = pytest.mark.engine_independent

ISSUER = "https://kubernetes.default.svc"
CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
SPEC: dict[str, Any] = {
    "tokenProfiles": [{"name": "pods", "serviceAccounts": {"audience": "waymesh"}}],
    "listeners": [{"name": "amqps", "port": 5671, "tls": True, "auth": "token", "tokenProfile": "pods"}],
}


@pytest.fixture
def world() -> Iterator[Lab]:
    with lab() as found:
        found.kube.documents = {CONFIGURATION: {"issuer": ISSUER}, KEYS: {"keys": [{"kid": "1"}]}}
        yield found


def wait(work: Coroutine[Any, Any, Any]) -> None:
    asyncio.run(work)


def file(world: Lab) -> Any:
    secret = world.kube.objects["Secret", NAMESPACE, "mesh-credentials"]
    text = secret["data"].get("service-accounts.jwks")
    return json.loads(base64.b64decode(text)) if text else None


def listens(world: Lab) -> bool:
    """Whether the router has the listener, with the tokenProfile that it names."""
    rows = world.live("mesh-0").rows
    listeners = [row for name, row in rows.get("listener", {}).items() if "/listener/" in name]
    assert all(row["tokenProfile"] in rows["tokenProfile"] for row in listeners)
    return bool(listeners)


def asked(world: Lab) -> int:
    return sum(call[1] == "document" for call in world.kube.calls)


def test_keys_come_from_the_api_server_and_follow_it(world: Lab) -> None:
    world.router(1, **SPEC)
    wait(world.settle())
    assert file(world) == {"issuer": ISSUER, "keys": [{"kid": "1"}]}
    assert listens(world)
    assert world.condition("Ready")[0] == "True"
    before = asked(world)
    wait(world.turn())
    assert asked(world) == before, "not with each turn"
    world.kube.documents[KEYS] = {"keys": [{"kid": "1"}, {"kid": "2"}]}
    world.later(60)
    wait(world.settle())
    assert [key["kid"] for key in file(world)["keys"]] == ["1", "2"]


def test_a_mesh_without_token_profiles_asks_for_nothing(world: Lab) -> None:
    world.router(1)
    wait(world.settle())
    assert asked(world) == 0


def test_without_the_right_to_read_them_the_listener_stays_closed_and_the_status_says_why(world: Lab) -> None:
    world.kube.documents.clear()
    world.router(1, **SPEC)
    wait(world.settle())
    assert not listens(world)
    assert file(world) is None
    assert world.condition("ResolvedRefs") == ("False", "KeysUnreadable")
    world.kube.documents = {CONFIGURATION: {"issuer": ISSUER}, KEYS: {"keys": [{"kid": "1"}]}}
    wait(world.settle())
    assert listens(world)
    assert world.condition("ResolvedRefs")[0] == "True"


@pytest.mark.parametrize("anew", [False, True], ids=["the same operator", "an operator that starts"])
def test_keys_that_cannot_be_read_again_stay(world: Lab, anew: bool) -> None:
    world.router(1, **SPEC)
    wait(world.settle())
    before = file(world)

    def fail(verb: str, kind: str, name: str) -> None:
        if kind == "document":
            raise KubeError(500, "no")

    world.kube.fail = fail
    world.later(60)
    if anew:
        world.anew()
    wait(world.settle())
    assert file(world) == before
    assert listens(world)
    assert world.condition("ResolvedRefs") == ("False", "KeysUnreadable")
    assert world.condition("Ready")[0] == "True", "tokens are accepted meanwhile"
