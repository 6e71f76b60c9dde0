"""Management clients of routers: the interface, plain connections, and mutual TLS to routers in pods."""

from __future__ import annotations

import hashlib
import shutil
import socket
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from waymesh_client.channel import Sasl, Tls
from waymesh_operator.tls.certificates import Credential
from waymesh_operator.tls.rollover import TlsView


class LiveClient(Protocol):
    """The interface of a management client. Every method raises `waymesh_client.errors.ClientError`."""

    def query(self, entity_type: str | None = None, attributes: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Read all entities of a type, with the named attributes (all if none is named)."""

    def create(self, entity_type: str, attributes: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
        """Create an entity."""

    def update(
        self, attributes: Mapping[str, Any], entity_type: str | None = None, *, name: str | None = None
    ) -> dict[str, Any]:
        """Change attributes of an entity."""

    def delete(self, entity_type: str | None = None, *, name: str | None = None) -> None:
        """Remove an entity."""

    def close(self) -> None:
        """Close the connection; it is opened again when needed."""


def connect(url: str, timeout_s: float = 2.0) -> LiveClient:
    """Return a client of the router at this URL. It connects at the first request."""
    from waymesh_client.management import ManagementClient  # proton is slow to import: only when it is needed

    return ManagementClient(url, timeout_s=timeout_s)


MANAGEMENT_PORT = 55672
HANDSHAKE_S = 3.0
_SASL_HEADER = b"AMQP\x03\x01\x00\x00"


class KeyFolder:
    """Certificates as files, which proton and ssl require; readable by this user only, and removed by `close`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="waymesh-"))

    def tls(self, credential: Credential, authorities: bytes, server_name: str) -> Tls:
        """Return files for this certificate and these authorities; the same contents give the same files."""
        digest = hashlib.sha256(credential.certificate + credential.key + authorities).hexdigest()[:20]
        contents = {"crt": credential.certificate, "key": credential.key, "ca": authorities}
        paths = {part: self.folder / f"{digest}.{part}" for part in contents}
        for part, path in paths.items():
            if not path.exists():
                path.touch(mode=0o600)
                path.write_bytes(contents[part])
        return Tls(ca=str(paths["ca"]), certificate=str(paths["crt"]), key=str(paths["key"]), server_name=server_name)

    def close(self) -> None:
        """Remove all of them."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Reach(Protocol):
    """Connects to routers in pods, by the address of the pod; tests replace it."""

    def client(self, address: str, tls: Tls) -> LiveClient:
        """Return a client of the router at this address. It connects at the first request."""

    def look(self, address: str, tls: Tls, probe: Tls | None) -> TlsView:
        """Return the result of a TLS handshake; an empty view if it fails. With `probe`, also whether that is
        accepted."""


@dataclass(frozen=True, slots=True)
class SecureReach:
    """Production implementation: mutual TLS on the routers' management port."""

    port: int = MANAGEMENT_PORT
    timeout_s: float = 5.0

    def client(self, address: str, tls: Tls) -> LiveClient:
        """See Reach."""
        from waymesh_client.management import ManagementClient  # proton is slow to import: only when it is needed

        where = f"[{address}]" if ":" in address else address
        return ManagementClient(
            f"amqps://{where}:{self.port}", timeout_s=self.timeout_s, tls=tls, sasl=Sasl(mechanisms="EXTERNAL")
        )

    def look(self, address: str, tls: Tls, probe: Tls | None) -> TlsView:
        """See Reach."""
        place = (address, self.port)
        try:
            shown = x509.load_der_x509_certificate(_handshake(place, tls))
        except (OSError, ValueError):
            return TlsView()
        digest = shown.fingerprint(hashes.SHA256()).hex()
        return TlsView(digest, shown.not_valid_after_utc, probe is not None and _takes(place, probe))


def _takes(place: tuple[str, int], probe: Tls) -> bool:
    try:
        _handshake(place, probe)
    except OSError:
        return False
    return True


def _handshake(place: tuple[str, int], tls: Tls) -> bytes:
    """Return the router's certificate as DER. Raises OSError if either side does not trust the other.

    In TLS 1.3, the client's handshake ends before the server verifies the client: only data from it proves acceptance.
    """
    context = ssl.create_default_context(cafile=tls.ca)
    context.load_cert_chain(str(tls.certificate), tls.key)
    with (
        socket.create_connection(place, HANDSHAKE_S) as raw,
        context.wrap_socket(raw, server_hostname=tls.server_name) as stream,
    ):
        stream.sendall(_SASL_HEADER)
        if not stream.recv(len(_SASL_HEADER)):
            raise ConnectionError("the router closed the connection")
        return stream.getpeercert(binary_form=True) or b""
