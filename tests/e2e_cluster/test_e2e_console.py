"""The console of a Router comes to running routers, and goes; `waymesh console` reaches a pod without it."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from tests.cluster.namespace import Namespace, condition_status
from tests.e2e_cluster.scene import Mesh, certificate, secret
from tests.kit.waiting import wait_until

PORT = 8443
WAIT_S = 120.0
HEADER = b"AMQP\x03\x01\x00\x00"
"""With which SASL begins; the answer of the router begins with it, too."""
CONSOLE: dict[str, Any] = {
    "enabled": True, "auth": "plain", "management": "read",
    "users": {"secretRef": {"name": "people"}}, "certificate": {"secretRef": {"name": "console-tls"}},
}  # fmt: skip


def ask(address: str, method: str, path: str, login: str = "", body: object = None) -> int:
    """The status of a router's answer at its console; 0 while there is none."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    fields = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
    if body is not None:
        fields["Content-Type"] = "application/json"
    connection = http.client.HTTPSConnection(address, PORT, timeout=30, context=trusting)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, fields)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@contextmanager
def command(namespace: Namespace, router: str) -> Iterator[str]:
    """`waymesh console` for a Router; the address that it prints."""
    argv = [sys.executable, "-m", "waymesh_operator", "console", router, "-n", namespace.name]
    process = subprocess.Popen(
        argv, env={**os.environ, "KUBECONFIG": str(namespace.cluster.kubeconfig)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rpartition(" ")[2]
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


async def greeted(address: str) -> tuple[bytes, str]:
    """What the router answers to the page's first bytes, and what the command says of the report."""
    url = urlsplit(address)
    place, code = f"http://{url.netloc}", url.fragment.removeprefix("code=")
    own = {"Origin": place}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{place}/code", data=code, headers=own) as answer:
            token = await answer.text()
        async with session.post(f"{place}/report", headers={**own, "Authorization": f"Bearer {token}"}) as answer:
            reason = (await answer.json())["reason"]
        async with session.ws_connect(f"{place}/", protocols=["amqp", f"waymesh.{token}"], origin=place) as page:
            await page.send_bytes(HEADER)
            return await page.receive_bytes(timeout=WAIT_S), str(reason)


def test_the_console_comes_to_running_routers_and_goes(operator: Namespace, namespace: Namespace) -> None:
    namespace.apply([secret("people", alice="first"), certificate("console-tls", ["mesh.example"])])
    mesh = Mesh(namespace).apply(1)
    mesh.converged(1)
    lives = mesh.lives()
    (pod,) = mesh.pods().values()
    address = pod["status"]["podIP"]
    assert ask(address, "GET", "/console/") == 0

    namespace.patch("Router", "mesh", {"spec": {"console": CONSOLE}})
    wait_until(lambda: ask(address, "GET", "/console/") == 200, WAIT_S, lambda: str(mesh.status()))
    # Its users, with the right that the manifest gives them.
    assert ask(address, "GET", "/api/v1/router") == 401
    assert ask(address, "GET", "/api/v1/router", "alice:wrong") == 401
    wait_until(lambda: ask(address, "GET", "/api/v1/router", "alice:first") == 200, WAIT_S, "alice may read")
    assert ask(address, "POST", "/api/v1/address", "alice:first", {"name": "x", "prefix": "x"}) == 403
    namespace.wait(
        "Router", "mesh", lambda found: condition_status(found, "Programmed") == "True", WAIT_S, "it is Programmed"
    )

    # Who may forward ports needs neither listener nor user.
    namespace.patch("Router", "mesh", {"spec": {"console": {"enabled": False}}})
    wait_until(lambda: ask(address, "GET", "/console/") == 0, WAIT_S, "the listener is gone")
    with command(namespace, "mesh") as printed:
        said, reason = asyncio.run(greeted(printed))
    assert said.startswith(HEADER)
    assert "has no running pod with" in reason
    assert mesh.lives() == lives
