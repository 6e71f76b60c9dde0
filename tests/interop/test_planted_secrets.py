"""A router that is full of secrets, at trace level, in both formats of the log: no output of it has any of them."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.raw_client import SASL, RawClient
from tests.interop.test_tokens import log_in
from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, command, section
from tests.kit.tokens import AUDIENCE, ISSUER, Issuer, keys_file
from tests.kit.waiting import wait_until
from waymesh_amqp.sasl import make_line
from waymesh_client.channel import Sasl
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.events import LogEvent

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

PASSWORDS = {
    name: f"planted-{name}-9d1f"
    for name in (
        "plain", "scram", "key", "connector", "wrong", "name", "guess", "created", "profile", "refused", "mistyped",
        "misspelt", "host", "failover", "keysurl", "checked", "body",
    )
}  # fmt: skip
WHO = {"saslUsername": "alice", "saslMechanisms": "PLAIN", "host": "127.0.0.1"}


def forms(secret: str) -> set[str]:
    """How a secret may be written: as it is, in hexadecimal digits, in base64 behind anything."""
    data = secret.encode()
    coded = {base64.b64encode(b"\0" * before + data).decode()[4:-4] for before in (1, 2, 3)}
    return {secret, data.hex(), *coded}


class Run:
    """The router, everything that it was asked, and all that it said: `outputs` by name, `secrets` by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: free_port() for name in ("clients", "people", "readers", "tokens", "pages")}
        self.issuer = Issuer()
        self.token, self.foreign = self.issuer.token(), self.issuer.token(aud="elsewhere")
        plain, scram = (make_line("alice", PASSWORDS["plain"], "plain"), make_line("bob", PASSWORDS["scram"]))
        (folder / "people.users").write_text(f"{plain}\n{scram}\n", encoding="utf-8")
        self.secrets = dict(PASSWORDS)
        for name, key in zip(("stored key", "server key"), scram.split(",")[2:], strict=True):
            self.secrets[name] = key
        for name, token in (("token", self.token), ("foreign token", self.foreign)):
            self.secrets |= {f"{name}, part {part}": text for part, text in enumerate(token.split(".")) if part}
        self.authority = Authority(folder)
        names = ("localhost", "127.0.0.1")
        self.pair = self.authority.issue("server", {"CN": "localhost"}, names, PASSWORDS["key"])
        keys_file(folder, self.issuer.jwks())
        self.router = RouterProcess(folder, "A", self._config(), self.ports.values())
        self.outputs: dict[str, str] = {}

    def _config(self) -> str:
        here, ports, folder = {"host": "127.0.0.1"}, self.ports, self.folder
        guarded = {"authenticatePeer": True, "messageLoggingComponents": "all", **here}
        inner = {"port": ports["people"], "role": "route-container", "host": "127.0.0.1"}
        return (
            section("router", id="A", mode="standalone", saslConfigDir=folder, saslConfigName="people")
            + section("log", module="DEFAULT", enable="trace+")
            + section("telemetry", path=folder / "spool")
            + section("sslProfile", name="tls", certFile=self.pair.cert, privateKeyFile=self.pair.key,
                      password=PASSWORDS["key"])
            + section("tokenProfile", name="tokens", issuer=ISSUER, audience=AUDIENCE, keysFile=folder / "keys.json")
            + section("listener", name="clients", port=ports["clients"], managementFiles=True, **here)
            + section("listener", name="people", port=ports["people"], saslMechanisms="PLAIN SCRAM-SHA-256",
                      allowInsecurePlain=True, **guarded)
            + section("listener", name="readers", port=ports["readers"], management="read", **here)
            + section("listener", name="tokens", port=ports["tokens"], saslMechanisms="XOAUTH2 OAUTHBEARER",
                      sslProfile="tls", requireSsl=True, tokenProfile="tokens", **guarded)
            + section("listener", name="pages", port=ports["pages"], http=True, **here)
            + section("connector", name="fails", saslPassword=PASSWORDS["connector"], **{**inner, **WHO})
            + section("connector", name="works", saslUsername="bob", saslMechanisms="SCRAM-SHA-256",
                      saslPassword=PASSWORDS["scram"], **inner)
            + section("address", prefix="closed", distribution="unavailable")
        )  # fmt: skip

    def url(self, name: str) -> str:
        return f"amqp://127.0.0.1:{self.ports[name]}"

    def go(self) -> None:
        self.router.start()
        self._traffic("text")
        with ManagementClient(self.router.url) as management:
            management.update({"format": "json"}, "log", name="log/DEFAULT")
        self._traffic("json")
        for name in ("clients", "readers"):
            with ManagementClient(self.url(name)) as management:
                self._keep(name, management)
        self.outputs["--dump"] = self._said("--dump", "--url", self.router.url)
        page = http.client.HTTPConnection("127.0.0.1", self.ports["pages"], timeout=30)
        page.request("GET", "/metrics")
        self.outputs["metrics"] = page.getresponse().read().decode()
        page.close()
        self._check()
        wait_until(lambda: '"event": "authentication.failed"' in self.router.log)
        self.router.stop()
        self.outputs["log"] = self.router.log
        for path in self.folder.joinpath("spool").rglob("*.gz"):
            self.outputs[f"records {path}"] = gzip.decompress(path.read_bytes()).decode()

    def _traffic(self, run: str) -> None:
        """Logins, right and wrong, and requests with secrets."""
        for mechanism, user, password, code in (
            ("PLAIN", "alice", "plain", 0),
            ("PLAIN", "alice", "wrong", 1),
            ("SCRAM-SHA-256", "bob", "scram", 0),
            ("SCRAM-SHA-256", "bob", "guess", 1),
            ("PLAIN", PASSWORDS["name"], "wrong", 1),
        ):
            with RawClient(self.ports["people"]) as raw:
                assert raw.login(mechanism, user, PASSWORDS[password]).code == code
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        for mechanism in ("XOAUTH2", "OAUTHBEARER"):
            for token, code in ((self.token, 0), (self.foreign, 1)):
                with RawClient(self.ports["tokens"], context) as raw:
                    raw.send(SASL)
                    assert raw.read(8) == SASL
                    assert log_in(raw, mechanism, token) == code
        with Client(self.url("clients")) as client:
            client.receiver("closed", wait=False).wait_detached()
        with ManagementClient(self.url("people"), sasl=Sasl("PLAIN", "alice", PASSWORDS["plain"])) as alice:
            self._changes(run, alice)
        with ManagementClient(self.url("readers")) as reader:
            self._refused(f"{run}: reader", reader, "connector", {**WHO, "saslPassword": PASSWORDS["refused"]})

    def _changes(self, run: str, alice: ManagementClient) -> None:
        connector = {**WHO, "port": str(free_port()), "role": "normal"}
        made = alice.create("connector", {**connector, "saslPassword": PASSWORDS["created"]}, name="made")
        self.outputs[f"{run}: created"] = repr(made)
        alice.delete("connector", name="made")
        made = alice.create("sslProfile", {"password": "pass:" + PASSWORDS["profile"]}, name=f"made-{run}")
        self.outputs[f"{run}: created profile"] = repr(made)
        url = "amqp://u:{}@broker:5672"
        tokens = {"issuer": ISSUER, "audience": AUDIENCE}
        wrong: dict[str, tuple[str, dict[str, Any]]] = {
            "cost": ("connector", {**connector, "saslPassword": PASSWORDS["refused"], "cost": "none"}),
            "a map": ("connector", {**connector, "saslPassword": {PASSWORDS["mistyped"]: 1}}),
            "misspelt": ("connector", {**connector, "saslPasword": PASSWORDS["misspelt"]}),
            "host": ("connector", {**connector, "host": url.format(PASSWORDS["host"])}),
            "failover": ("connector", {**connector, "failoverUrls": url.format(PASSWORDS["failover"])}),
            "listener": ("listener", {"port": "0", "failoverUrls": url.format(PASSWORDS["failover"])}),
            "keysUrl": ("tokenProfile", {**tokens, "keysUrl": f"https://:{PASSWORDS['keysurl']}@localhost/k"}),
        }
        for name, (kind, attributes) in wrong.items():
            self._refused(f"{run}: {name}", alice, kind, attributes)

    def _refused(self, name: str, client: ManagementClient, kind: str, attributes: dict[str, Any]) -> None:
        with pytest.raises(ManagementError) as refused:
            client.create(kind, attributes, name="refused")
        self.outputs[f"refusal {name}"] = str(refused.value)

    def _keep(self, name: str, management: ManagementClient) -> None:
        for kind in ENTITY_TYPES.values():
            with contextlib.suppress(ManagementError):  # types without entities
                self.outputs[f"{name}: rows of {kind.name}"] = repr(management.query(kind.long_name))
        self.outputs[f"{name}: GET-LOG"] = repr(management.node_operation("GET-LOG"))

    def _check(self) -> None:
        """Errors in a configuration file."""
        path = self.folder / "wrong.conf"
        url = f"amqp://u:{PASSWORDS['checked']}@broker:5672"
        path.write_text(
            section("router", id="A")
            + section("connector", host=url, port=1, role="normal")
            + section("listener", port=0, failoverUrls=url)
            + section("connector", host="b", port=1, saslPasswort=PASSWORDS["checked"])
            + section("connector", host="b", port="x y", saslPassword=PASSWORDS["checked"]),
            encoding="utf-8",
        )
        self.outputs["--check"] = self._said("--check", "-c", str(path), code=1)

    def _said(self, *options: str, code: int = 0) -> str:
        done = subprocess.run([*command(), *options], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, done
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = Run(tmp_path_factory.mktemp("planted"))
    try:
        run.go()
        yield run
    finally:
        run.router.stop()


def test_no_output_has_a_secret(done: Run) -> None:
    found = [
        (name, where)
        for name, secret in done.secrets.items()
        for form in forms(secret)
        for where, text in done.outputs.items()
        if form in text
    ]
    assert found == []


def test_the_outputs_are_what_they_are_meant_to_be(done: Run) -> None:
    log = done.outputs["log"]
    assert "@sasl-init(" in log
    assert "Received Message{" in log
    assert '"module": "PROTOCOL"' in log
    for name in ("clients", "readers"):
        assert "saslPassword': '*" in done.outputs[f"{name}: rows of connector"]
        assert "event=link.attached" in done.outputs[f"{name}: GET-LOG"]
    for name in ("host", "failover", "listener"):
        assert "must not contain user or password" in done.outputs[f"refusal text: {name}"]
    assert done.outputs["--check"].count("must not contain user or password") == 2
    assert any("kind=event" in name and "policy.denied" in text for name, text in done.outputs.items())


def test_events_are_in_both_formats(done: Run) -> None:
    """The same ids with the same fields."""
    lines = done.outputs["log"].splitlines()
    objects = [json.loads(line) for line in lines if line.startswith("{")]
    ends = [found for line in lines if (found := re.search(r" \[event=(\S+)(?: (.*))?\]$", line))]
    common = {
        LogEvent.CONNECTION_OPENED, LogEvent.CONNECTION_CLOSED, LogEvent.AUTHENTICATION_SUCCEEDED,
        LogEvent.AUTHENTICATION_FAILED, LogEvent.TOKEN_REFUSED, LogEvent.LINK_ATTACHED, LogEvent.LINK_REFUSED,
        LogEvent.POLICY_DENIED, LogEvent.MANAGEMENT_CREATE, LogEvent.MANAGEMENT_DELETE, LogEvent.MANAGEMENT_FAILED,
    }  # fmt: skip
    assert {found[1] for found in ends} >= common
    members = [line for line in objects if "event" in line]
    assert {line["event"] for line in members} >= common
    assert {found[1] for found in ends} | {line["event"] for line in members} <= set(LogEvent)
    failed = [line for line in members if line["event"] == LogEvent.AUTHENTICATION_FAILED]
    assert {line.get("user") for line in failed} == {"alice", "bob", None}, "other names may be passwords"
    assert all(line["host"].startswith("127.0.0.1:") for line in failed)
    who = [found[2] for found in ends if found[1] == LogEvent.AUTHENTICATION_FAILED]
    assert any(re.fullmatch(r"user=alice host=127\.0\.0\.1:\d+ listener=people", text) for text in who)
