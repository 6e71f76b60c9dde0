"""A router whose access policy tests set, with users alice and bob."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kit.clients import Client
from tests.kit.threaded import ThreadedRouter
from waymesh_amqp.sasl import make_line
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.management.metrics import metrics_page
from waymesh_router.policy.statistics import Denials, VhostCounts
from waymesh_router.policy.vhosts import parse_policy

UNAUTHORIZED = "amqp:unauthorized-access"
LIMIT = "amqp:resource-limit-exceeded"
EVERYTHING = {"remoteHosts": "*", "sources": "*", "targets": "*", "allowDynamicSource": True,
              "allowAnonymousSender": True, "allowUserIdProxy": True}  # fmt: skip


class Guarded:
    """The router, and the clients that are closed with it."""

    def __init__(self, folder: Path, extra: str = "", **listener: Any) -> None:
        lines = [make_line(user, "secret", "plain") for user in ("alice", "bob")]
        (folder / "mesh.users").write_text("\n".join(lines), encoding="utf-8")
        users = {"saslConfigDir": folder, "saslConfigName": "mesh"}
        self.router = ThreadedRouter(folder, extra, users, allowInsecurePlain=True, **listener)
        self.url = self.router.url
        self.enforcement = self.router.router.policy
        self._clients: list[Client] = []

    def set(self, *vhosts: dict[str, Any], **values: Any) -> None:
        """Replace the settings."""
        values = {"enableVhostPolicy": True, "defaultVhost": "$default", **values}
        policy = parse_policy(values, vhosts, PatternTree[str], lambda _: [])
        self.router.call(lambda: self.enforcement.replace(policy))

    def group(self, **settings: Any) -> None:
        """Everything allowed to everybody, but for these settings of the group."""
        self.set(vhost({**EVERYTHING, **settings}))

    def client(self, user: str | None = None, **options: Any) -> Client:
        if user is not None:
            options |= {"user": user, "password": "secret", "allow_insecure_mechs": True, "allowed_mechs": "PLAIN"}
        client = Client(self.url, **options)
        self._clients.append(client)
        return client

    def refused(self, user: str | None = None, **options: Any) -> str:
        """The error of a connection that is closed at its open."""
        client = self.client(user, wait=False, **options)
        return str(client.wait_ended())

    def denials(self) -> Denials:
        """Of the group that tests use."""
        counts = self.vhost_counts()
        assert counts.denials == counts.group_denials.get("$default", Denials())
        return counts.denials

    def metric(self, kind: str) -> int:
        """The value of waymesh_policy_denied_total."""
        router = self.router.router
        page = self.router.call(lambda: metrics_page(router, router.core.now))
        start = f'waymesh_policy_denied_total{{kind="{kind}"}} '
        return next(int(line.removeprefix(start)) for line in page.splitlines() if line.startswith(start))

    def vhost_counts(self) -> VhostCounts:
        return self.router.call(lambda: self.enforcement.counts.vhosts["$default"])

    def open(self) -> int:
        return self.router.call(lambda: self.enforcement.open.total)

    def wait_open(self, count: int) -> None:
        self.router.wait(lambda: self.enforcement.open.total == count, f"{count} open connections")

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self.router.stop()


def vhost(group: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {"hostname": "$default", "allowUnknownUser": True, "groups": {"$default": group}, **values}


def passes(client: Client, address: str) -> None:
    """A message passes."""
    receiver = client.receiver(address, 1)
    sent = client.sender(address).send("x")
    receiver.next().accept()
    assert sent.outcome() == "accepted"
    receiver.close()


def refused(link: Any) -> str:
    """The condition and text of a refused link, whose attach had no terminus."""
    error = link.wait_detached()
    assert link._remote_terminus().address is None
    return str(error)
