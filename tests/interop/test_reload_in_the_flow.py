"""Users, keys and revocation lists change while messages flow: none is lost, and new clients meet the change."""

from __future__ import annotations

import os
import signal
import ssl
from pathlib import Path

import proton
import pytest

from tests.interop.raw_client import SASL, Ended, RawClient
from tests.kit.certificates import Authority
from tests.kit.clients import Client, Receiver
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import SaslInit, SaslMechanisms, SaslOutcome
from waymesh_amqp.sasl import make_line

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

ROUNDS = 4
AT_ONCE = 100


class World:
    """A TLS listener for passwords and certificates, whose files change in each round."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.server = self.authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
        self.workers = [self.authority.issue(f"worker{n}", {"CN": f"worker{n}"}) for n in range(ROUNDS + 1)]
        self.users, self.crl = folder / "the.users", folder / "crl.pem"
        self.change(0)
        self.port = free_port()
        text = section("router", id="A")
        text += section(
            "sslProfile", name="tls", caCertFile=self.authority.cert, certFile=self.server.cert,
            privateKeyFile=self.server.key, crlFile=self.crl, uidFormat="n",
        )  # fmt: skip
        text += section(
            "listener", host="127.0.0.1", port=self.port, sslProfile="tls", requireSsl=True, authenticatePeer=True,
            saslMechanisms="EXTERNAL PLAIN SCRAM-SHA-256", usersFile=self.users,
        )  # fmt: skip
        self.router = RouterProcess(folder, "A", text, [self.port])

    def change(self, number: int) -> None:
        """New password; the workers below `number` are revoked; from the second time on, a new server certificate."""
        self.users.write_text(make_line("bob", f"password {number}"), encoding="utf-8")
        self.crl.write_bytes(self.authority.revoke(*self.workers[:number]))
        if number:
            self.authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))

    def password_works(self, number: int) -> bool:
        with RawClient(self.port, ssl.create_default_context(cafile=str(self.authority.cert))) as raw:
            return raw.login("SCRAM-SHA-256", "bob", f"password {number}").code == 0

    def certificate_works(self, number: int) -> bool:
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        context.load_cert_chain(self.workers[number].cert, self.workers[number].key)
        try:
            with RawClient(self.port, context) as raw:
                raw.send(SASL)
                raw.read(8)
                raw.expect(SaslMechanisms)
                raw.put(SaslInit(mechanism="EXTERNAL", initial_response=b""))
                return raw.expect(SaslOutcome).code == 0
        except (ssl.SSLError, ConnectionError, Ended, AmqpError):
            return False


def take(receiver: Receiver, arrived: list[int], count: int) -> None:
    """Accept that many messages."""
    for _ in range(count):
        delivery = receiver.next()
        delivery.accept()
        arrived.append(delivery.body)


def test_messages_flow_while_users_keys_and_revocations_change(tmp_path: Path) -> None:
    world = World(tmp_path)
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(world.authority.cert))
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER)
    last = world.workers[-1]
    domain.set_credentials(str(last.cert), str(last.key), None)
    try:
        world.router.start()
        with Client(f"amqps://127.0.0.1:{world.port}", ssl_domain=domain, allowed_mechs="EXTERNAL") as client:
            total = (ROUNDS + 1) * AT_ONCE
            receiver, sender = client.receiver("flow", total), client.sender("flow")
            sent = sender.send_all(list(range(AT_ONCE)))
            arrived: list[int] = []
            for number in range(1, ROUNDS + 1):
                world.change(number)
                sent += sender.send_all(list(range(number * AT_ONCE, number * AT_ONCE + AT_ONCE // 2)))
                if number % 2:  # in the other rounds the router notices by itself
                    os.kill(world.router.pid, signal.SIGHUP)
                sent += sender.send_all(list(range(number * AT_ONCE + AT_ONCE // 2, (number + 1) * AT_ONCE)))
                wait_until(lambda number=number: world.password_works(number))  # type: ignore[misc]
                assert not world.password_works(number - 1)
                wait_until(lambda number=number: not world.certificate_works(number - 1))  # type: ignore[misc]
                assert world.certificate_works(ROUNDS)
                take(receiver, arrived, AT_ONCE)
            take(receiver, arrived, AT_ONCE)
            assert arrived == list(range(total))
            assert [one.outcome() for one in sent] == ["accepted"] * total
    finally:
        world.router.stop()
