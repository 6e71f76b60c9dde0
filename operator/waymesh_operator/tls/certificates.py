"""Authorities (valid for ten years) and leaf certificates (ninety days) with P-256 keys, and the validity of users'
certificates and revocation lists. `now` is a UTC time with zone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS, LEAF_DAYS = 3650, 90
SKEW = timedelta(minutes=5)
"""How far the clocks of nodes may be behind the operator's when they receive a new certificate."""
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its private key, both PEM. The key is empty if the key of an authority was lost."""

    certificate: bytes
    key: bytes

    @property
    def whole(self) -> bool:
        """Whether certificate and key can be parsed and match."""
        try:
            certificate = x509.load_pem_x509_certificate(self.certificate)
            key = serialization.load_pem_private_key(self.key, None)
        except (ValueError, TypeError):
            return False
        return _public(key) == _public(certificate)


def new_ca(name: str, now: datetime) -> Credential:
    """Create an authority. Its subject contains a unique number, so that two authorities with the same name differ."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    subject = _name(f"{name[:40]} authority {serial % 2**32:08x}")
    builder = _builder(subject, subject, key.public_key(), serial, now, CA_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(ca=True), critical=True)
    return _signed(builder, key, key)


@dataclass(frozen=True, slots=True)
class Leaf:
    """Validity and usage of a leaf certificate."""

    days: int = LEAF_DAYS
    purposes: tuple[x509.ObjectIdentifier, ...] = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


def issue(ca: Credential, common_name: str, names: Sequence[str], now: datetime, leaf: Leaf = Leaf()) -> Credential:
    """Issue a leaf certificate with these DNS names and IP addresses, for servers and clients unless `leaf` says else.

    Raises ValueError for a broken authority.
    """
    authority = x509.load_pem_x509_certificate(ca.certificate)
    signer = signer_of(ca)
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    builder = _builder(_name(common_name[:64]), authority.subject, key.public_key(), serial, now, leaf.days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(ca=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(leaf.purposes), critical=False)
    if names:
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return _signed(builder.add_extension(identifier, critical=False), key, signer)


def _general_name(name: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def signer_of(ca: Credential) -> ec.EllipticCurvePrivateKey:
    """Return the key of an authority. Raises ValueError."""
    signer = serialization.load_pem_private_key(ca.key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the authority is not an elliptic-curve key")
    return signer


def renewal_due(certificate: bytes, now: datetime) -> bool:
    """Return whether two thirds of the certificate's validity have passed. Raises ValueError if it is not a
    certificate."""
    loaded = x509.load_pem_x509_certificate(certificate)
    begin, end = loaded.not_valid_before_utc, loaded.not_valid_after_utc
    return now >= begin + (end - begin) * 2 / 3


def expires(certificate: bytes) -> datetime:
    """Return when the (first) certificate expires. Raises ValueError if it is not a certificate."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of the (first) certificate's DER form, as hex digits. Raises ValueError."""
    return x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256()).hex()


def split_pem(bundle: bytes) -> tuple[bytes, ...]:
    """Split a PEM bundle into its certificates, in order, without any text between them."""
    found = []
    for part in bundle.split(_BEGIN)[1:]:
        body, end, _ = part.partition(_END)
        if end:
            found.append(_BEGIN + body + end + b"\n")
    return tuple(found)


def readable(certificate: bytes) -> bool:
    """Whether the text is a PEM certificate."""
    try:
        x509.load_pem_x509_certificate(certificate)
    except ValueError:
        return False
    return True


def issued_by(certificate: bytes, authority: bytes) -> bool:
    """Whether the authority signed the certificate."""
    try:
        leaf = x509.load_pem_x509_certificate(certificate)
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except Exception as error:  # noqa: BLE001  InvalidSignature, ValueError and TypeError share no better base
        del error
        return False
    return True


def subject_names(certificate: bytes) -> frozenset[str]:
    """The DNS names and IP addresses of a certificate; none if it cannot be parsed."""
    try:
        extensions = x509.load_pem_x509_certificate(certificate).extensions
        alternatives = extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, x509.ExtensionNotFound):
        return frozenset()
    addresses = alternatives.value.get_values_for_type(x509.IPAddress)
    return frozenset([*alternatives.value.get_values_for_type(x509.DNSName), *map(str, addresses)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, serial: int, now: datetime, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key, serial)
    builder = builder.not_valid_before(now - SKEW).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Credential:
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return Credential(certificate, private)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _public(holder: object) -> bytes:
    public = holder.public_key()  # type: ignore[attr-defined]
    return bytes(public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


SOON = timedelta(days=14)
SOON_SHARE = 5
"""With a validity of less than 70 days, the last fifth counts as "soon", so that daily lists do not warn all day."""
_CRL = b"-----BEGIN X509 CRL-----", b"-----END X509 CRL-----"


@dataclass(frozen=True, slots=True)
class Validity:
    """Start and end of a validity."""

    begin: datetime
    end: datetime

    def soon(self, now: datetime) -> bool:
        """Whether it ends soon, or has ended."""
        return now >= self.end - min(SOON, (self.end - self.begin) / SOON_SHARE)


def of_certificates(pem: bytes) -> Validity | None:
    """Return the validity of the PEM file's certificate that ends first: clients need the whole chain. None if
    unreadable."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return None
    return _first(Validity(one.not_valid_before_utc, one.not_valid_after_utc) for one in found)


def of_revocation_lists(pem: bytes) -> Validity | None:
    """Return the validity of the PEM file's list that ends first. None if unreadable, or if no list has an end."""
    begin, end = _CRL
    try:
        found = [
            x509.load_pem_x509_crl(begin + part.partition(end)[0] + end + b"\n") for part in pem.split(begin)[1:]
        ]
    except ValueError:
        return None
    spans = ((one.last_update_utc, one.next_update_utc) for one in found)
    return _first(Validity(first, last) for first, last in spans if last is not None)


def _first(found: Iterable[Validity]) -> Validity | None:
    return min(found, key=lambda one: one.end, default=None)
