"""Who gets in: each client certificate with each SASL mechanism at each kind of TLS listener, by proton and by `ssl`.

A certificate that is wrong is never let in, whatever SASL would say; a missing one only where SASL admits the client.
Other clients: test_tls_sasl_programs.py and tests/interop_brokers/test_jms_logins.py.
"""

from __future__ import annotations

import pytest

from tests.interop.raw_client import AMQP, SASL, RawClient
from tests.interop.tls_sasl_world import BAD, CERTIFICATES, LISTENERS, LOGINS, REFUSED, World, expected, running
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import SaslMechanisms
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_router.runtime.tls.transports import AMQP_TLS_HEADER

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

world = pytest.fixture(scope="module")(running)


@pytest.mark.parametrize("listener", LISTENERS)
def test_clients_of_ssl_get_in_as_who_they_are_or_not_at_all(world: World, listener: str) -> None:
    cases = [(certificate, login) for certificate in CERTIFICATES for login in LOGINS]
    found = {case: world.raw(listener, *case) for case in cases}
    assert found == {case: expected(listener, *case) for case in cases}


@pytest.mark.parametrize("listener", LISTENERS)
def test_clients_of_proton_get_in_as_who_they_are_or_not_at_all(world: World, listener: str) -> None:
    logins = [login for login in LOGINS if not login.startswith("SCRAM")]  # which needs libraries of the system
    cases = [(certificate, login) for certificate in CERTIFICATES for login in logins]
    found = {case: world.proton(listener, *case) for case in cases}
    assert found == {case: expected(listener, *case) for case in cases}


OFFERED = {
    ("certificate", "good"): {"EXTERNAL"},
    ("either", None): {"PLAIN", "SCRAM-SHA-256"},
    ("either", "good"): {"EXTERNAL", "PLAIN", "SCRAM-SHA-256"},
    ("anybody", None): {"ANONYMOUS"},
    ("anybody", "good"): {"EXTERNAL", "ANONYMOUS"},
    ("password", None): {"PLAIN"},
}


@pytest.mark.parametrize(("listener", "certificate"), OFFERED)
def test_only_mechanisms_that_can_succeed_are_offered(world: World, listener: str, certificate: str | None) -> None:
    """Neither ANONYMOUS where peers authenticate, nor EXTERNAL without a certificate."""
    with RawClient(world.ports[listener], world.context(certificate)) as raw:
        raw.send(SASL)
        raw.read(8)
        assert set(raw.expect(SaslMechanisms).sasl_server_mechanisms) == OFFERED[listener, certificate]


@pytest.mark.parametrize(
    ("listener", "certificate"), [("certificate", "good"), ("either", "good"), ("either", None), ("password", None)]
)
def test_nobody_skips_sasl_where_peers_authenticate(world: World, listener: str, certificate: str | None) -> None:
    with RawClient(world.ports[listener], world.context(certificate)) as raw:
        raw.send(AMQP)
        assert raw.read_to_end() == SASL


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("first", [SASL, AMQP, AMQP_TLS_HEADER + SASL])
def test_nobody_comes_in_without_tls_where_it_is_required(world: World, listener: str, first: bytes) -> None:
    """Asking for TLS by a header and going on without it is no way in either."""
    with RawClient(world.ports[listener]) as raw:
        raw.send(first)
        assert raw.read_to_end().removeprefix(AMQP_TLS_HEADER)[:4] != b"AMQP"


def test_the_log_tells_why_certificates_are_refused(world: World) -> None:
    for certificate in BAD:
        assert world.raw("certificate", certificate, "EXTERNAL") == REFUSED
    for reason in ("certificate has expired", "certificate revoked", "unable to get local issuer certificate"):
        wait_until(lambda reason=reason: f"certificate of the peer: {reason}" in world.router.log)  # type: ignore[misc]


def test_management_changes_a_profile_for_its_listeners_at_once(world: World) -> None:
    with ManagementClient(world.router.url) as client:
        row = client.read("sslProfile", name="tls")
        assert row["notAfter"] > 0
        try:
            client.update({"crlFile": None, "uidFormat": "on"}, "sslProfile", name="tls")
            assert world.raw("certificate", "revoked", "EXTERNAL") == ";worker"
        finally:
            client.update({"crlFile": str(world.crl), "uidFormat": "n"}, "sslProfile", name="tls")
        assert world.raw("certificate", "revoked", "EXTERNAL") == REFUSED
        for wrong in (
            {"crlFile": "/nowhere"}, {"certFile": "/nowhere"}, {"caCertFile": None, "crlFile": None},
            {"protocols": "SSLv3"}, {"ciphers": "TLS_AES_128_GCM_SHA256"}, {"uidNameMappingFile": str(world.crl)},
        ):  # fmt: skip
            with pytest.raises(ManagementError) as raised:
                client.update(wrong, "sslProfile", name="tls")
            assert raised.value.status == 400, wrong
        assert client.read("sslProfile", name="tls") == row
    assert world.raw("certificate", "good", "EXTERNAL") == "worker"
    assert world.raw("certificate", "revoked", "EXTERNAL") == REFUSED


def test_a_request_at_a_listener_without_the_right_names_no_files(world: World) -> None:
    with ManagementClient(world.router.url) as client:
        port = free_port()
        client.create("listener", {"host": "127.0.0.1", "port": str(port)}, name="no files")
        try:
            with ManagementClient(f"amqp://127.0.0.1:{port}") as other, pytest.raises(ManagementError) as raised:
                other.update({"crlFile": str(world.crl) + "2"}, "sslProfile", name="tls")
        finally:
            client.delete("listener", name="no files")
    assert raised.value.status == 400
    assert "only taken from the configuration file" in str(raised.value)
