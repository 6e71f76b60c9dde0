"""Determines by requests what a running router does with each attribute of each entity type.

    python -m tests.interop.management_table

starts a router, asks it, and writes the table into docs/management.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kit.certificates import Authority
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.tokens import Issuer, keys_file
from tests.kit.waiting import wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.validate import validate_create

PREFIX = "org.apache.qpid.dispatch."
PAGE = Path(__file__).parents[2] / "docs" / "management.md"
BEGIN, END = "<!-- table: python -m tests.interop.management_table -->\n", "<!-- end of the table -->\n"
IDENTIFYING = ("name", "identity", "type")
HIDDEN = "*******"
SETS, CHANGES, NONE = "sets", "changes", "no entity"
KEYS_URL = "http://127.0.0.1:1/keys"
"""Nobody answers there."""
NODE_TYPES = ("org.amqp.management", PREFIX + "management")

Schema = Mapping[str, Any]


class TableRouter:
    """A router with an entity of each type, and a client of its listener with `managementFiles`."""

    def __init__(self, folder: Path) -> None:
        ports = free_port(), free_port()
        self.folder = folder
        self.authority = Authority(folder)
        self.pair = self.authority.issue("server", {"CN": "localhost"}, ("localhost",))
        (folder / "names.json").write_text("{}", encoding="utf-8")
        (folder / "crl.pem").write_bytes(self.authority.revoke())
        (folder / "password").write_text("secret", encoding="utf-8")
        text = (
            section("router", mode="interior", id="A")
            + section(
                "listener",
                name="clients",
                host="127.0.0.1",
                port=ports[0],
                role="route-container",  # its peers can have link routes of their own
                management="write",
                managementFiles=True,
            )
            + section("listener", name="mesh", host="127.0.0.1", port=ports[1], role="inter-router")
            + section(
                "sslProfile",
                name="tls",
                caCertFile=self.authority.cert,
                certFile=self.pair.cert,
                privateKeyFile=self.pair.key,
            )
            + section("vhost", hostname="v", groups='{"staff": {}}')
            + section("tokenProfile", name="tokens", audience="a", issuer="i", keysUrl=KEYS_URL)
            + section("authServicePlugin", name="service", host="127.0.0.1", port=1)
            + section("exchange", name="orders", address="orders")
            + section("exchange", name="other", address="other")
        )
        self.process = RouterProcess(folder, "A", text, ports)
        self.certain = {
            # What an attribute needs beside it, or a value that is not to be guessed.
            ("listener", "cost"): {"role": "inter-router", "cost": 5},
            ("listener", "peerNames"): {**self._tls(), "requireSsl": True, "peerNames": "a.example"},
            ("listener", "recheckPeers"): {**self._tls(), "peerNames": "a.example", "recheckPeers": True},
            ("listener", "requireEncryption"): {**self._tls(), "requireEncryption": True},
            ("listener", "requireSsl"): {**self._tls(), "requireSsl": True},
            ("listener", "sslProfile"): self._tls(),
            ("listener", "sslProfilesByHost"): {**self._tls(), "sslProfilesByHost": {"a.example": "tls"}},
            ("listener", "tokenProfile"): {**self._tls(), "tokenProfile": "tokens"},
            ("listener", "saslPlugin"): {"saslPlugin": "service"},
            ("listener", "usersFile"): {"usersFile": str(folder / "names.json")},
            ("authServicePlugin", "authService"): {"host": None, "port": None, "authService": "127.0.0.1:1"},
            ("authServicePlugin", "port"): {"port": "1"},
            ("authServicePlugin", "sslProfile"): self._tls(),
            ("listener", "trustedCertsFile"): {**self._tls(), "trustedCertsFile": str(self.authority.cert)},
            ("listener", "port"): {"port": str(free_port())},
            ("listener", "saslMechanisms"): {"saslMechanisms": "ANONYMOUS"},
            ("listener", "failoverUrls"): {"failoverUrls": "amqp://other:5672"},
            ("connector", "cost"): {"role": "inter-router", "cost": 5},
            ("connector", "port"): {"port": str(free_port())},
            ("connector", "saslMechanisms"): {"saslMechanisms": "ANONYMOUS"},
            ("connector", "sslProfile"): self._tls(),
            ("connector", "verifyHostname"): {**self._tls(), "verifyHostname": False},
            ("connector", "failoverUrls"): {"failoverUrls": "amqp://other:5672"},
            ("sslProfile", "caCertFile"): {"caCertFile": str(self.authority.cert)},
            ("sslProfile", "certFile"): {"certFile": str(self.pair.cert), "privateKeyFile": str(self.pair.key)},
            ("sslProfile", "privateKeyFile"): {"certFile": str(self.pair.cert), "privateKeyFile": str(self.pair.key)},
            ("sslProfile", "crlFile"): {"caCertFile": str(self.authority.cert), "crlFile": str(folder / "crl.pem")},
            ("sslProfile", "peersOnly"): {"caCertFile": str(self.authority.cert), "peersOnly": True},
            ("sslProfile", "passwordFile"): {"passwordFile": str(folder / "password")},
            ("sslProfile", "protocols"): {"protocols": "TLSv1.3"},
            ("sslProfile", "ciphers"): {"ciphers": "ECDHE-ECDSA-AES256-GCM-SHA384"},
            ("sslProfile", "uidFormat"): {"uidFormat": "n"},
            ("sslProfile", "uidNameMappingFile"): {"uidFormat": "n", "uidNameMappingFile": str(folder / "names.json")},
            ("tokenProfile", "keysFile"): {"keysUrl": None, "keysFile": str(keys_file(folder, Issuer().jwks()))},
            ("tokenProfile", "keysUrl"): {"keysUrl": "https://127.0.0.1:1/keys"},
            ("tokenProfile", "caCertFile"): {**self._https(), "caCertFile": str(self.authority.cert)},
            ("tokenProfile", "keysTokenFile"): {**self._https(), "keysTokenFile": str(folder / "password")},
            ("tokenProfile", "algorithms"): {"algorithms": "EdDSA"},
            ("router.config.address", "pattern"): {"prefix": None, "pattern": "x.*"},
            ("router.config.linkRoute", "pattern"): {"prefix": None, "pattern": "x.*"},
            ("router.config.linkRoute", "connection"): {"containerId": None, "connection": "mesh"},
            ("router.config.autoLink", "connection"): {"containerId": None, "connection": "mesh"},
            ("router.connection.linkRoute", "direction"): {"pattern": "y.#", "direction": "out"},
            ("router.config.binding", "exchangeName"): {"exchangeName": "other"},
            ("router.config.exchange", "address"): {"address": "y"},
            ("log", "enable"): {"enable": "debug+"},
            ("log", "outputFile"): {"outputFile": str(folder / "other.log")},
            ("telemetry", "path"): {"path": str(folder)},
            ("connection", "adminStatus"): {"adminStatus": "deleted"},
            ("vhost", "allowUnknownUser"): {"allowUnknownUser": True, "groups": user_groups("$default")},
            ("vhost", "groups"): {"groups": user_groups("staff")},
        }
        rotated = {"outputFile": str(folder / "rotated.log"), "maxMegabytes": 1}
        self.together: dict[tuple[str, str], dict[str, Any]] = {
            ("listener", "recheckPeers"): {"peerNames": "a.example"},
            ("log", "maxMegabytes"): rotated,
            ("log", "keptFiles"): rotated,
            ("vhost", "allowUnknownUser"): {"groups": user_groups("$default")},
            **{("sslProfile", name): files for name, files in self._whole_files().items()},
        }
        """Attributes without which an UPDATE of another one is refused."""
        self.bases: dict[str, dict[str, Any]] = {
            "listener": {"host": "127.0.0.1", "port": "0", **self._tls()},
            "connector": {"host": "127.0.0.1", "port": str(free_port())},
            "sslProfile": {},
            "authServicePlugin": {"host": "127.0.0.1"},
            "tokenProfile": {"audience": "a", "issuer": "i", "keysUrl": KEYS_URL},
            "router.config.address": {"prefix": "x"},
            "router.config.linkRoute": {"prefix": "x", "direction": "in", "containerId": "broker"},
            "router.config.autoLink": {"address": "x", "direction": "in", "containerId": "broker"},
            "router.connection.linkRoute": {"pattern": "x.#", "direction": "in"},
            "router.config.exchange": {"address": "x"},
            "vhost": {"hostname": "x"},
            "router.config.binding": {"exchangeName": "orders", "nextHopAddress": "x"},
        }

    def _whole_files(self) -> dict[str, dict[str, Any]]:
        key = {"certFile": str(self.pair.cert), "privateKeyFile": str(self.pair.key)}
        trust = {"caCertFile": str(self.authority.cert)}
        return {"certFile": key, "privateKeyFile": key, "crlFile": trust, "peersOnly": trust}

    def _tls(self) -> dict[str, Any]:
        return {"sslProfile": "tls"}

    def _https(self) -> dict[str, Any]:
        return {"keysUrl": "https://127.0.0.1:1/keys"}

    def __enter__(self) -> ManagementClient:
        self.process.start()
        self.client = ManagementClient(self.process.url).__enter__()
        return self.client

    def __exit__(self, *_error: object) -> None:
        self.client.close()
        self.process.stop()

    def values(self, kind: str, name: str, attribute: Schema) -> dict[str, Any]:
        """Attributes of a request that gives this one a value other than its default."""
        return self.certain.get((kind, name)) or {name: sample(attribute)}


def user_groups(name: str) -> dict[str, Any]:
    """The groups of a vhost as it shows them: one group with its defaults."""
    groups: dict[str, Any] = validate_create(ENTITY_TYPES["vhost"], {"hostname": "x", "groups": {name: {}}})["groups"]
    return groups


def sample(attribute: Schema) -> Any:
    """A value of an attribute other than its default."""
    kind, default = attribute["type"], attribute.get("default")
    if isinstance(kind, list):
        return next(value for value in kind if value != default or len(kind) == 1)
    if kind == "boolean":
        return not default
    if kind == "integer":
        least = attribute.get("minimum", 0) if default is None else default + 1
        most = attribute.get("maximum", least)
        return min(least, most) if min(least, most) != default else most - 1
    return {"map": {"a": "b"}, "properties": {"a": "b"}, "list": ["a"], "path": "/tmp"}.get(kind, "127.0.0.1")


class Survey:
    """Asks a router about all of its entity types."""

    def __init__(self, router: TableRouter, client: ManagementClient) -> None:
        self._router = router
        self._client = client
        self._schema = client.node_operation("GET-SCHEMA")["entityTypes"]
        self.kinds = [
            kind
            for kind, described in self._schema.items()
            if described["attributes"].keys() - set(IDENTIFYING) and described["fullyQualifiedType"] not in NODE_TYPES
        ]

    def attributes(self, kind: str) -> dict[str, Schema]:
        """The attributes of a type of their own."""
        return {name: one for name, one in self._schema[kind]["attributes"].items() if name not in IDENTIFYING}

    def create(self, kind: str, name: str) -> str:
        """What CREATE makes of an attribute: SETS, or the status of the refusal."""
        values = self._router.values(kind, name, self.attributes(kind)[name])
        body = {**self._router.bases.get(kind, {}), **values}
        sent = {key: value for key, value in body.items() if value is not None}
        try:
            row = self._client.create(kind, sent, name="tried")
        except ManagementError as error:
            return str(error.status)
        self._client.delete(kind, identity=row["identity"])
        return SETS if row[name] == sent[name] or row[name] == HIDDEN else f"gives {row[name]!r}"

    def update(self, kind: str, name: str) -> str:
        """What UPDATE makes of an attribute: CHANGES, or the status of the refusal."""
        before = self._entity(kind)
        if before is None:
            return NONE
        value = self._router.values(kind, name, self.attributes(kind)[name])[name]
        if value == before[name]:
            value = not value if isinstance(value, bool) else f"{value}x" if isinstance(value, str) else value + 1
        try:
            changes = {**self._router.together.get((kind, name), {}), name: value}
            row = self._client.update(changes, kind, identity=before["identity"])
            if name == "quiescing":  # the router deletes an autolink without deliveries as soon as its timers run
                wait_until(lambda: all(one["identity"] != before["identity"] for one in self._client.query(kind)))
            elif name != "adminStatus":  # whose entity is gone
                self._client.update({key: before[key] for key in changes}, kind, identity=before["identity"])
        except ManagementError as error:
            return str(error.status)
        return CHANGES if row[name] in (value, HIDDEN) else f"gives {row[name]!r}"

    def delete(self, kind: str) -> str:
        """What DELETE does: "yes" or the status of the refusal."""
        entity = self._entity(kind)
        if entity is None:
            return NONE
        try:
            self._client.delete(kind, identity=entity["identity"])
        except ManagementError as error:
            return str(error.status)
        return "yes"

    def _entity(self, kind: str) -> dict[str, Any] | None:
        """An entity of the type; of the types that can be created one that may be deleted."""
        rows = self._client.query(kind)
        if not rows and kind not in self._router.bases:
            return None
        if kind in ("connection", "router.link"):
            return max(rows, key=lambda row: int(row["identity"]))  # of the client that is there for that
        if kind not in self._router.bases:
            return rows[0]
        found = [row for row in rows if row["name"] == "subject"]
        base = self._router.bases[kind]
        own: dict[str, Any] = {name: "own" for name in ("prefix", "nextHopAddress", "hostname") if name in base}
        own |= {"address": "own"} if kind == "router.config.exchange" else {}
        return found[0] if found else self._client.create(kind, self._router.bases[kind] | own, name="subject")

    def lines(self, kind: str) -> list[str]:
        """The rows of the table about a type: attributes of which the same holds share one."""
        groups: dict[tuple[str, str], list[str]] = {}
        for name in self.attributes(kind):
            groups.setdefault((self.create(kind, name), self.update(kind, name)), []).append(f"`{name}`")
        deleted = self.delete(kind)
        return [
            f"| `{kind}` | {', '.join(names)} | {created} | {updated} | {deleted} |\n"
            for (created, updated), names in groups.items()
        ]


def table(router: TableRouter, client: ManagementClient) -> str:
    """The whole table."""
    head = "| entity | attributes | CREATE | UPDATE | DELETE |\n|---|---|---|---|---|\n"
    survey = Survey(router, client)
    lines = []
    for kind in survey.kinds:
        with ManagementClient(router.process.url) as subject:
            subject.nodes()  # so that its links are there
            lines += survey.lines(kind)
    return head + "".join(lines)


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    with tempfile.TemporaryDirectory() as folder:
        router = TableRouter(Path(folder))
        with router as client:
            PAGE.write_text(before + BEGIN + table(router, client) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
