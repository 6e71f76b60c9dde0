"""Who gets in, by Qpid JMS: the rows of tests/interop/test_tls_sasl_matrix.py that it can ask for, in one JVM."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.interop.tls_sasl_world import World, logins, running
from tests.interop_brokers.jms_checks import java

pytestmark = [pytest.mark.interop, pytest.mark.brokers]

world = pytest.fixture(scope="module")(running)
STORE_PASSWORD = "changeit"


def key_store(cert: Path, key: Path) -> Path:
    """The certificate and its key in the form that Java reads."""
    store = cert.with_suffix(".p12")
    data = pkcs12.serialize_key_and_certificates(
        b"client",
        serialization.load_pem_private_key(key.read_bytes(), None),  # type: ignore[arg-type]
        x509.load_pem_x509_certificate(cert.read_bytes()),
        None,
        serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
    )
    store.write_bytes(data)
    return store


def url(arguments: dict[str, str]) -> str:
    """With all options. The client trusts any router: here, only the router judges."""
    options = {"amqp.saslMechanisms": arguments["mechanism"], "jms.connectTimeout": "20000", "amqp.idleTimeout": "0"}
    if arguments["url"].startswith("amqps"):
        options |= {"transport.trustAll": "true", "transport.verifyHost": "false"}
    if "cert" in arguments:
        store = key_store(Path(arguments["cert"]), Path(arguments["key"]))
        options |= {"transport.keyStoreLocation": str(store), "transport.keyStorePassword": STORE_PASSWORD}
        options |= {"transport.storeType": "PKCS12"}
    return f"{arguments['url']}?{urlencode(options)}"


def test_clients_of_qpid_jms_get_in_or_not_as_those_of_proton(world: World) -> None:
    cases = logins(world, ["either"])  # a refused login takes a JVM a second
    arguments = [(a["name"], url(a), a["user"], a["password"]) for a in (case.arguments for case in cases)]
    got_in = {row["name"]: not row["error"] for row in java("Logins", *(part for one in arguments for part in one))}
    assert got_in == {case.arguments["name"]: case.gets_in for case in cases}
