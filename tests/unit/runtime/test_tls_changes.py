"""Certificates in Kubernetes volumes change while routers run: rotation, and a change of the authority."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.files import replace_file
from tests.kit.mesh import known_routers
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import DEADLINE_S, wait_until
from tests.unit.runtime.fakes import Running
from waymesh_client.channel import Tls
from waymesh_client.errors import ClientError, ManagementError
from waymesh_client.management import ManagementClient

READ_AGAIN = "sslProfile mesh: certificates were reloaded"


class Volume:
    """A folder whose files change atomically: links into a data folder, which is a symbolic link that is swapped."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._version = 0

    def put(self, **files: bytes) -> None:
        """Replace the files; in names, `_` stands for the dot."""
        self._version += 1
        data = self.folder / f"..version{self._version}"
        data.mkdir()
        for name, content in files.items():
            (data / name.replace("_", ".")).write_bytes(content)
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(data.name)
        os.replace(fresh, self.folder / "..data")
        for name in files:
            link = self.folder / name.replace("_", ".")
            if not link.is_symlink():
                link.symlink_to(f"..data/{link.name}")
        if self._version > 1:
            shutil.rmtree(self.folder / f"..version{self._version - 1}")

    def path(self, name: str) -> Path:
        return self.folder / name


def authority(folder: Path, name: str) -> Authority:
    folder.mkdir()
    return Authority(folder, name)


def leaf_of(issuer: Authority, label: str = "leaf") -> dict[str, bytes]:
    pair = issuer.issue(label, {"CN": label}, ("localhost",))
    return {"tls_crt": pair.cert.read_bytes(), "tls_key": pair.key.read_bytes()}


def profile(volume: Volume) -> str:
    files = {"caCertFile": "ca.crt", "certFile": "tls.crt", "privateKeyFile": "tls.key"}
    return section("sslProfile", name="mesh", **{key: volume.path(name) for key, name in files.items()})


def mutual(**attributes: object) -> dict[str, object]:
    return {"sslProfile": "mesh", "saslMechanisms": "EXTERNAL", **attributes}


class Pair:
    """Routers A and B, connected over TLS with certificates of a volume, each with a management listener with mutual
    TLS."""

    def __init__(self, folder: Path, volume: Volume) -> None:
        mesh = free_port()
        self.secure = [free_port(), free_port()]
        self.routers = []
        for number, name in enumerate("AB"):
            plain = free_port()
            text = section("router", id=name, mode="interior") + profile(volume)
            text += section("listener", name="plain", host="127.0.0.1", port=plain)
            text += section(
                "listener",
                **mutual(
                    name="secure", host="localhost", port=self.secure[number], authenticatePeer=True, requireSsl=True
                ),
            )
            ports = [plain, self.secure[number]]
            if name == "A":
                more = {"host": "localhost", "port": mesh, "authenticatePeer": True, "requireSsl": True}
                text += section("listener", **mutual(name="mesh", role="inter-router", **more))
                ports.append(mesh)
            else:
                self.connector = mutual(name="toA", role="inter-router", host="localhost", port=mesh)
                text += section("connector", **self.connector)
            self.routers.append(RouterProcess(folder, name, text, ports))

    def start(self) -> None:
        for router in self.routers:
            router.start()
        self.wait_joined()

    def wait_joined(self) -> None:
        for router in self.routers:
            wait_until(lambda router=router: known_routers(router) == {"A", "B"})  # type: ignore[misc]

    def reconnect(self) -> None:
        """Reconnect the two routers, which needs valid certificates on both sides."""
        with ManagementClient(self.routers[1].url) as client:
            row = next(row for row in client.query("connection") if row["role"] == "inter-router")
            assert (row["sasl"], row["isEncrypted"], row["dir"]) == ("EXTERNAL", True, "out")
            client.delete("connector", name="toA")
            client.create("connector", self.connector)
            old = row["identity"]
            wait_until(lambda: old not in [r["identity"] for r in client.query("connection") if r["opened"]])
            wait_until(lambda: any(r["role"] == "inter-router" and r["opened"] for r in client.query("connection")))
        self.wait_joined()

    def manage(self, number: int, tls: Tls) -> str:
        """The user of a management client with this certificate."""
        with ManagementClient(f"amqps://localhost:{self.secure[number]}", tls=tls) as client:
            rows = client.query("connection", ["user", "role", "isEncrypted"])
            return next(str(row["user"]) for row in rows if row["isEncrypted"] and row["role"] == "normal")


class Flow:
    """Messages from A to B, one after the other; each must be accepted."""

    def __init__(self, pair: Pair) -> None:
        self.count = 0
        self.bad: list[str | None] = []
        self._stop = threading.Event()
        self._consumer = Client(pair.routers[1].url)
        self._receiver = self._consumer.receiver("orders", credit=100)
        self._producer = Client(pair.routers[0].url)
        self._sender = self._producer.sender("orders")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            sent = self._sender.send(self.count)
            received = self._receiver.next()
            assert received.body == self.count
            received.accept()
            self._receiver.flow(1)
            if sent.outcome() != "accepted":
                self.bad.append(sent.state)
            self.count += 1
            self._stop.wait(0.005)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(20)
        for client in (self._producer, self._consumer):
            client.close()


@pytest.fixture
def old(tmp_path: Path) -> Authority:
    return authority(tmp_path / "old", "Old CA")


@pytest.fixture
def new(tmp_path: Path) -> Authority:
    return authority(tmp_path / "new", "New CA")


@pytest.fixture
def volume(tmp_path: Path, old: Authority) -> Volume:
    found = Volume(tmp_path / "volume")
    found.put(ca_crt=old.cert.read_bytes(), **leaf_of(old))
    return found


@pytest.fixture
def pair(tmp_path: Path, volume: Volume) -> Iterator[Pair]:
    found = Pair(tmp_path, volume)
    try:
        found.start()
        yield found
    finally:
        for router in found.routers:
            router.stop()


def client_tls(trusted: Authority, issuer: Authority, name: str = "operator") -> Tls:
    own = issuer.issue(name, {"CN": name})
    return Tls(ca=str(trusted.cert), certificate=str(own.cert), key=str(own.key))


def test_the_authority_is_rolled_over_while_messages_flow(
    pair: Pair, volume: Volume, old: Authority, new: Authority
) -> None:
    assert pair.manage(0, client_tls(old, old)) == "CN=operator"
    with pytest.raises(ClientError):
        pair.manage(0, client_tls(old, new, "stranger"))
    both = old.cert.read_bytes() + new.cert.read_bytes()
    of_old, of_new = leaf_of(old), leaf_of(new)
    flow = Flow(pair)
    before = flow.count
    for step, files in enumerate(
        ({"ca_crt": both, **of_old}, {"ca_crt": both, **of_new}, {"ca_crt": new.cert.read_bytes(), **of_new}), 1
    ):
        volume.put(**files)
        for router in pair.routers:
            wait_until(lambda router=router, step=step: router.log.count(READ_AGAIN) == step)  # type: ignore[misc]
        wait_until(lambda before=before: flow.count > before + 20)  # type: ignore[misc]
        before = flow.count
        if step == 1:
            assert pair.manage(0, client_tls(old, new)) == "CN=operator", "a client of the new authority comes in"
    flow.close()
    assert not flow.bad
    pair.reconnect()
    assert pair.manage(1, client_tls(new, new)) == "CN=operator"
    with pytest.raises(ClientError):
        pair.manage(1, client_tls(new, old, "late"))
    with pytest.raises(ClientError):
        pair.manage(1, client_tls(old, new))
    assert not [line for router in pair.routers for line in router.log.splitlines() if "stay in use" in line]


def test_broken_files_leave_the_old_certificate_in_use(pair: Pair, volume: Volume, old: Authority) -> None:
    good = leaf_of(old)
    volume.put(ca_crt=old.cert.read_bytes(), tls_crt=good["tls_crt"], tls_key=b"rubbish")
    for router in pair.routers:
        wait_until(lambda router=router: "the files loaded before stay in use" in router.log)  # type: ignore[misc]
    pair.reconnect()
    assert pair.manage(0, client_tls(old, old)) == "CN=operator"
    volume.put(ca_crt=old.cert.read_bytes(), **good)
    for router in pair.routers:
        wait_until(lambda router=router: READ_AGAIN in router.log)  # type: ignore[misc]
    pair.reconnect()


def test_users_of_a_volume_change(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "credentials")
    volume.put(waymesh_users=b"alice:{plain}old\n")
    port = free_port()
    text = section("router", id="A", saslConfigDir=volume.folder, saslConfigName="waymesh")
    text += section("listener", host="127.0.0.1", port=port, saslMechanisms="PLAIN", allowInsecurePlain=True,
                    authenticatePeer=True)  # fmt: skip
    router = RouterProcess(tmp_path, "A", text, [port]).start()
    try:
        volume.put(waymesh_users=b"alice:{plain}new\n")
        wait_until(lambda: "the users have changed" in router.log)
        with Client(router.url, user="alice", password="new", allowed_mechs="PLAIN", allow_insecure_mechs=True):
            pass
        volume.put(waymesh_users=b"no user file\nbob:{SCRAM-SHA-256}1,,,\n\xff\nalice:{plain}newer\n")
        wait_until(lambda: "line 3: " in router.log)
        assert "line 2: user bob: iterations must be a number" in router.log
        with Client(router.url, user="alice", password="newer", allowed_mechs="PLAIN", allow_insecure_mechs=True):
            pass
    finally:
        router.stop()


def test_a_profile_in_use_stays(pair: Pair) -> None:
    with ManagementClient(pair.routers[1].url) as client:
        with pytest.raises(ManagementError, match="in use: listener secure, connector toA") as raised:
            client.delete("sslProfile", name="mesh")
        assert raised.value.status == 400
        client.delete("listener", name="secure")
        client.delete("connector", name="toA")
        client.delete("sslProfile", name="mesh")
        assert not client.query("sslProfile", ["name"])


def test_authorities_of_a_listener_in_place_of_the_profiles(
    host: Running, old: Authority, new: Authority, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    shutil.copy(new.cert, trusted)
    pair = old.issue("server", {"CN": "localhost"}, ("localhost",))
    attrs = {"name": "p", "caCertFile": str(old.cert), "certFile": str(pair.cert), "privateKeyFile": str(pair.key)}
    host.call(host.host.ssl_profile, attrs)
    port = host.listen(sslProfile="p", saslMechanisms="EXTERNAL", requireSsl=True, trustedCertsFile=str(trusted))
    assert user_of(host, port, old, new) == "CN=worker"
    assert user_of(host, port, old, old) is None
    replace_file(trusted, new.cert.read_bytes() + old.cert.read_bytes())
    assert user_of(host, port, old, old) == "CN=worker"


def user_of(host: Running, port: int, trusted: Authority, issuer: Authority) -> str | None:
    """The user of a client with a certificate of `issuer`; None if it is refused."""
    own = issuer.issue("worker", {"CN": "worker"})
    context = ssl.create_default_context(cafile=str(trusted.cert))
    context.load_cert_chain(own.cert, own.key)
    before = len(host.router.connections)
    try:
        raw = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        with context.wrap_socket(raw, server_hostname="localhost") as sock:
            sock.sendall(b"x\n")
            if sock.recv(10) != b"x\n":
                return None
    except (ssl.SSLError, ConnectionError):
        return None
    assert len(host.router.connections) == before + 1
    return host.router.connections[-1][1].peer.external_user
