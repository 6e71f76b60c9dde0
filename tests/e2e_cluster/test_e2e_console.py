"""The console of a Router comes to running routers, and goes; `waymesh console` reaches a pod without it."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any

from tests.cluster.namespace import Namespace, condition_status
from tests.e2e_cluster.console_command import HEADER, console
from tests.e2e_cluster.scene import Mesh, certificate, secret
from tests.kit.waiting import wait_until

PORT = 8443
WAIT_S = 120.0
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
    with console(namespace, "mesh") as page:
        assert page.greeted().startswith(HEADER)
        assert "has no running pod with" in page.report()["reason"]
    assert mesh.lives() == lives
