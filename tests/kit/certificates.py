"""Certificates for TLS tests: an authority, server and client certificates, and one nobody trusts."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.kit.files import replace_file

NAMES = {
    "C": NameOID.COUNTRY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "L": NameOID.LOCALITY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "CN": NameOID.COMMON_NAME,
}
LASTS_S = 2 * 86400.0


@dataclass(frozen=True)
class KeyPair:
    """Paths of a certificate and its private key, both PEM."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority in a folder: `ca.pem`, and what it issues."""

    def __init__(self, folder: Path, name: str = "Test CA") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.cert = folder / "ca.pem"
        self.cert.write_bytes(self.certificate())

    def certificate(self, lasts_s: float = LASTS_S) -> bytes:
        """A certificate of its own with the same name and key, PEM. `lasts_s`: as of `issue`."""
        builder = self._builder(self._name, self._key.public_key(), lasts_s)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        label: str,
        subject: dict[str, str],
        hosts: tuple[str, ...] = (),
        password: str | None = None,
        algorithm: str = "EC",
        lasts_s: float = LASTS_S,
    ) -> KeyPair:
        """A certificate for `subject` ({"CN": "…", "O": "…"}, in that order), for `hosts` as server and as client.

        `algorithm`: EC, or RSA for peers that can read no other key. `lasts_s`: how long it is valid; below 0:
        it has ended so long ago.
        """
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = (
            rsa.generate_private_key(65537, 2048) if algorithm == "RSA" else ec.generate_private_key(ec.SECP256R1())
        )
        name = x509.Name([x509.NameAttribute(NAMES[part], value) for part, value in subject.items()])
        builder = self._builder(name, key.public_key(), lasts_s)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        pair = KeyPair(self.folder / f"{label}.pem", self.folder / f"{label}.key")
        replace_file(pair.cert, builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        replace_file(
            pair.key, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return pair

    def revoke(self, *revoked: KeyPair, ended: bool = False) -> bytes:
        """A revocation list of these certificates, PEM. `ended`: it was valid only until a minute ago."""
        begin, end = _validity(-60 if ended else LASTS_S)
        builder = x509.CertificateRevocationListBuilder(self._name, begin, end)
        for pair in revoked:
            serial = x509.load_pem_x509_certificate(pair.cert.read_bytes()).serial_number
            one = x509.RevokedCertificateBuilder(serial, begin)
            builder = builder.add_revoked_certificate(one.build())
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey, lasts_s: float = LASTS_S
    ) -> x509.CertificateBuilder:
        begin, end = _validity(lasts_s)
        builder = x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
        return builder.not_valid_before(begin).not_valid_after(end)


def _validity(lasts_s: float) -> tuple[datetime.datetime, datetime.datetime]:
    now = datetime.datetime.now(datetime.UTC)
    return now - datetime.timedelta(hours=1), now + datetime.timedelta(seconds=lasts_s)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
