"""A client certificate is a login of the console: a real browser shows it, and its user does what the group may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.test_console import DEADLINE_S, cells, press, serve, show
from tests.kit.browser import opened
from tests.kit.browser_certificates import give_certificate
from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.mesh import Mesh
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

TEXT = "document.body.innerText"


def group(user: str, right: str) -> dict[str, Any]:
    """A user group whose users may manage so."""
    targets = "$management, _topo/*"
    return {"users": user, "remoteHosts": "*", "targets": targets, "allowDynamicSource": True, "management": right}


@pytest.mark.parametrize("right", ["write", "read", "none"])
def test_the_user_of_a_certificate_does_what_its_group_may(mesh2_line: Mesh, tmp_path: Path, right: str) -> None:
    mesh, authority = mesh2_line, Authority(tmp_path)
    pair, alice = authority.issue("server", {"CN": "localhost"}, ("localhost",)), authority.issue("a", {"CN": "alice"})
    files = {"caCertFile": authority.cert, "certFile": pair.cert, "privateKeyFile": pair.key, "uidFormat": "n"}
    with ManagementClient(mesh["A"].url) as client:
        client.create("sslProfile", {name: str(value) for name, value in files.items()}, name="tls")
        groups = {"staff": group("alice", right), "others": group("anonymous", "write")}
        address = serve(
            mesh, sslProfile="tls", requireSsl=True, authenticatePeer=True, saslMechanisms="EXTERNAL", policyVhost="v"
        ).replace("http://127.0.0.1", "https://localhost")
        client.create("vhost", {"hostname": "v", "groups": groups})
        # The test's own clients use another listener.
        everything = {"users": "*", "remoteHosts": "*", "sources": "*", "targets": "*", "allowDynamicSource": True}
        free = {"$default": {**everything, "management": "write"}}
        client.create("vhost", {"hostname": "$default", "groups": free, "allowUnknownUser": True})
        client.update({"enableVhostPolicy": True, "defaultVhost": "$default"}, "policy")
    browser = tmp_path / "browser"
    browser.mkdir()
    give_certificate(browser, authority.cert, alice, address.removesuffix("/console/"))
    with opened(browser) as page, Client(mesh["A"].url, container_id="victim") as victim:
        victim.receiver("orders")
        page.look(1400, "light")
        show(page, address, "connections?router=A")
        if right == "none":
            wait_until(lambda: "No connection: " in page.run(TEXT), DEADLINE_S, lambda: str(page.run(TEXT)))
            assert cells(page, "connections") == {}
            return
        wait_until(lambda: "alice" in str(cells(page, "connections")), DEADLINE_S, lambda: str(page.run(TEXT)))
        (mine,) = [row for row in cells(page, "connections").values() if row["User"] == "alice"]
        assert (mine["SASL"], mine["TLS"].startswith("TLS")) == ("EXTERNAL", True)
        # Nobody was asked for anything, and there is nothing to log out of: the browser has the certificate.
        assert page.run("document.querySelectorAll('form.login, input[type=password]').length") == 0
        (row,) = [name for name, row in cells(page, "connections").items() if row["Container"] == "victim"]
        press(page, row)
        press(page, "Close…")
        press(page, "Close")
        if right == "write":
            victim.wait_ended()
        else:
            wait_until(lambda: "Not allowed" in page.run(TEXT), DEADLINE_S, lambda: str(page.run(TEXT)))
            assert "victim" in str(cells(page, "connections"))
        assert page.errors == []
