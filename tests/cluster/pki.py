"""The certificates of a cluster: one CA, a leaf for each component, and kubeconfigs that carry them."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A CA whose files lie in `folder`: made there when there is none, else read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = folder / "ca.crt", folder / "ca.key"
        if certificate.exists():
            loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
            assert isinstance(loaded, ec.EllipticCurvePrivateKey)
            self._key = loaded
            self._certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _self_signed(self._key)
        key.write_bytes(_pem(self._key))
        certificate.write_bytes(self.certificate)

    @property
    def certificate(self) -> bytes:
        """The CA's own certificate, PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str, organization: str = "", names: Iterable[str] = ()) -> Pair:
        """A leaf for server and client use; `names` are DNS names and IP addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            subject.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        builder = _builder(x509.Name(subject), self._certificate.subject, key.public_key())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        alternatives = [_general_name(name) for name in names]
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        leaf = builder.sign(self._key, hashes.SHA256())
        return Pair(leaf.public_bytes(serialization.Encoding.PEM), _pem(key))

    def write(self, file: str, pair: Pair) -> None:
        """`file`.crt and `file`.key in the CA's folder."""
        (self.folder / f"{file}.crt").write_bytes(pair.certificate)
        (self.folder / f"{file}.key").write_bytes(pair.key)

    def kubeconfig(self, user: str, server: str, pair: Pair) -> Path:
        """A kubeconfig of its own, certificates inside; its path."""
        cluster = {"server": server, "certificate-authority-data": _encoded(self.certificate)}
        credentials = {"client-certificate-data": _encoded(pair.certificate), "client-key-data": _encoded(pair.key)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "waymesh-test", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "waymesh-test", "context": {"cluster": "waymesh-test", "user": user}}],
            "current-context": "waymesh-test",
        }
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path


def write_signing_key(folder: Path) -> None:
    """sa.key and sa.pub: what service account tokens are signed with and checked by."""
    key = ec.generate_private_key(ec.SECP256R1())
    (folder / "sa.key").write_bytes(_pem(key))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "sa.pub").write_bytes(public)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "waymesh-test-ca")])
    builder = _builder(name, name, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256())
