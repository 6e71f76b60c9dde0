"""The official client behind the five verbs, against an HTTP server that answers as an API server does."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from waymesh_operator.errors import KubeError, NamespaceEnding, WaymeshError
from waymesh_operator.kube import COPY, RESOURCES, SECRET, DynamicKube, kind_of, slim

pytestmark = pytest.mark.engine_independent

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ROUTER = RESOURCES[0]


def against(handler: Handler, story: Callable[[DynamicKube], Awaitable[None]]) -> list[tuple[str, str, int]]:
    """Run a story against a server; returns the requests as they were counted."""
    counted: list[tuple[str, str, int]] = []

    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        configuration = Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
        kube = DynamicKube(configuration, lambda *call: counted.append(call))
        try:
            await story(kube)
        finally:
            await kube.close()
            await runner.cleanup()

    asyncio.run(run())
    return counted


def refused(status: int, message: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": message}, status=status)

    return handler


def test_dynamic_applies_with_our_name_and_force() -> None:
    seen: list[Any] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append((request.method, request.path, dict(request.query), request.content_type))
        return web.json_response({**json.loads(await request.text()), "seen": True})

    async def story(kube: DynamicKube) -> None:
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": {}}
        assert (await kube.apply(manifest))["seen"]
        await kube.patch_status(ROUTER, "n", "mesh", {"size": 1})

    assert against(handler, story) == [("apply", "Secret", 200), ("status", "Router", 200)]
    query = {"fieldManager": "waymesh-operator", "force": "true"}
    assert seen == [
        ("PATCH", "/api/v1/namespaces/n/secrets/s", query, "application/apply-patch+yaml"),
        ("PATCH", "/apis/waymesh.io/v1alpha1/namespaces/n/routers/mesh/status", query, "application/apply-patch+yaml"),
    ]


def test_dynamic_looks_for_no_password_in_a_netrc_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiohttp would read it before each request, in a thread."""
    looked: list[object] = []
    monkeypatch.setattr("aiohttp.client.netrc_from_env", lambda: looked.append(None))
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"name": "mesh"}})

    async def story(kube: DynamicKube) -> None:
        await kube.get(ROUTER, "n", "mesh")

    against(handler, story)
    assert not looked


def test_dynamic_uses_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.path_qs.startswith("http://api.invalid/") or request.host == "api.invalid"
        return web.json_response({"metadata": {"name": "mesh"}})

    async def story(kube: DynamicKube) -> None:
        monkeypatch.setenv("http_proxy", kube._api.configuration.host)
        other = DynamicKube(Configuration(host="http://api.invalid"))
        try:
            assert (await other.get(ROUTER, "n", "mesh"))["metadata"]["name"] == "mesh"
        finally:
            await other.close()

    against(handler, story)


def test_dynamic_lists_page_by_page_and_names_each_kind() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.path == "/api/v1/secrets"
        assert request.query["labelSelector"] == "waymesh.io/router"
        first = "continue" not in request.query
        items = [{"metadata": {"name": "a" if first else "b"}}]
        return web.json_response({"metadata": {"continue": "more"} if first else {}, "items": items})

    async def story(kube: DynamicKube) -> None:
        found = await kube.list(SECRET, None, "waymesh.io/router")
        assert [(item["kind"], item["metadata"]["name"]) for item in found] == [("Secret", "a"), ("Secret", "b")]
        known = {"kind": "Secret", "metadata": {"name": "known"}}
        found = await kube.list(SECRET, None, "waymesh.io/router", kept=lambda body: known)
        assert [item is known for item in found] == [True, True]

    against(handler, story)


@pytest.mark.parametrize(
    ("status", "missing", "conflict"), [(404, True, False), (409, False, True), (422, False, False)]
)
def test_dynamic_gives_the_api_servers_own_words(status: int, missing: bool, conflict: bool) -> None:
    async def story(kube: DynamicKube) -> None:
        with pytest.raises(KubeError, match="mesh: in words") as caught:
            await kube.get(ROUTER, "n", "mesh")
        assert (caught.value.status, caught.value.missing, caught.value.conflict) == (status, missing, conflict)

    assert against(refused(status, "in words"), story) == [("get", "Router", status)]


def test_dynamic_tells_a_namespace_that_is_being_deleted_from_other_refusals() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        causes = [{"reason": "NamespaceTerminating", "message": "in words", "field": "metadata.namespace"}]
        body = {"kind": "Status", "message": "forbidden: it is being terminated", "details": {"causes": causes}}
        return web.json_response(body, status=403)

    async def story(kube: DynamicKube) -> None:
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}
        with pytest.raises(NamespaceEnding, match="s: forbidden: it is being terminated"):
            await kube.apply(manifest)

    against(handler, story)


def test_dynamic_reads_a_document_of_any_media_type() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers["Accept"] != "*/*":
            return web.Response(status=406)
        return web.Response(text='{"keys": []}', content_type="application/jwk-set+json")

    async def story(kube: DynamicKube) -> None:
        assert await kube.document("/openid/v1/jwks") == {"keys": []}

    assert against(handler, story) == [("get", "document", 200)]


def test_dynamic_deletes_what_is_gone_already() -> None:
    async def story(kube: DynamicKube) -> None:
        await kube.delete(ROUTER, "n", "mesh")

    against(refused(404, "not found"), story)


def test_dynamic_says_that_nobody_answers() -> None:
    async def story() -> None:
        kube = DynamicKube(Configuration(host="http://127.0.0.1:1"))
        with pytest.raises(KubeError, match="cannot be reached") as caught:
            await kube.get(ROUTER, "n", "mesh")
        assert caught.value.status == 0
        await kube.close()

    asyncio.run(story())


def test_dynamic_answer_that_is_no_json() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>")

    async def story(kube: DynamicKube) -> None:
        with pytest.raises(KubeError):
            await kube.get(ROUTER, "n", "mesh")

    against(handler, story)


def test_kinds_of_others_are_none_of_our_business() -> None:
    with pytest.raises(WaymeshError, match="ClusterRole is not a kind"):
        kind_of("ClusterRole")


def test_what_is_kept_of_thousands_of_objects_is_shared() -> None:
    def answer(name: str) -> dict[str, Any]:
        condition = {"type": "Ready", "status": "True", "observedGeneration": 1, "message": "on mesh-0"}
        text = json.dumps(
            {
                "apiVersion": "waymesh.io/v1alpha1",
                "kind": "Address",
                "metadata": {
                    "name": name,
                    "managedFields": [{"manager": "kubectl"}],
                    "annotations": {COPY: "{}", "mine": "1"},
                },
                "spec": {
                    "routerRef": {"name": "mesh"},
                    "prefix": name,
                    "waypoint": True,
                    "priority": 1,
                    "list": [{"a": 1}, {"a": True}, {"a": None}],
                },
                "status": {"conditions": [condition]},
            }
        )
        return dict(json.loads(text))  # strings of its own, as an answer of the API server has

    (one, other), first = [slim(answer(name)) for name in ("a", "b")], answer("a")
    del first["metadata"]["managedFields"], first["metadata"]["annotations"][COPY]
    assert one == first
    assert json.dumps(one["spec"]["list"]) == '[{"a": 1}, {"a": true}, {"a": null}]'
    assert one["status"]["conditions"][0] is other["status"]["conditions"][0]
    assert one["spec"]["routerRef"] is other["spec"]["routerRef"]
    names = [{id(key) for key in body["spec"]} for body in (one, other)]
    assert names[0] == names[1]
