"""The identity of a TLS peer: the SASL EXTERNAL user name for a verified client certificate.

Uses the certificate as reported by `ssl`; a certificate library would add start-up time and memory.
"""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from waymesh_router.peers.certificate import PeerCertificate, Validity
from waymesh_router.peers.peer import Peer
from waymesh_router.runtime.errors import ProfileError
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport

Subject = Sequence[Sequence[tuple[str, str]]]
"""A subject as `ssl` reports it: relative distinguished names, each a sequence of (usually one) attribute name and
value."""

SHORT_NAMES = {
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "commonName": "CN",
    "domainComponent": "DC",
    "userId": "UID",
    "streetAddress": "STREET",
}
SUBJECT_CODES = {"c": "C", "s": "ST", "l": "L", "o": "O", "u": "OU", "n": "CN"}
DIGEST_CODES = {"1": "sha1", "2": "sha256", "5": "sha512"}


class Identity(NamedTuple):
    """Who a TLS peer is, by its verified certificate. `user`: its name for SASL EXTERNAL."""

    user: str
    certificate: PeerCertificate


def peer_of(sock: Transport, host: str, identity: Identity | None) -> Peer:
    """The peer of a transport that is ready; `identity`: None if it presented no certificate."""
    if not isinstance(sock, TlsSocket):
        return Peer(host)
    cipher, protocol, bits = sock.tls.cipher() or ("", "", 0)
    user, certificate = identity or (None, None)
    return Peer(host, True, protocol, cipher, bits, user, certificate)


def _certificate(found: Mapping[str, Any]) -> PeerCertificate:
    """A verified certificate, as `ssl` reports it."""
    begin, end = (float(ssl.cert_time_to_seconds(found[name])) for name in ("notBefore", "notAfter"))
    return PeerCertificate(whole_subject(found["subject"]), str(found["serialNumber"]), Validity(begin, end))


def check_uid_format(profile: str, text: str) -> None:
    """Raises ProfileError unless `text` only has the codes c s l o u n 1 2 5, each at most once."""
    known = "".join((*SUBJECT_CODES, *DIGEST_CODES))
    if set(text) - set(known) or len(set(text)) != len(text):
        raise ProfileError(f"sslProfile {profile}: uidFormat: {text!r}: allowed codes are {known}, each once")


def read_name_map(profile: str, path: str) -> dict[str, str]:
    """The uidNameMappingFile: a JSON map of uid → user name. Raises ProfileError."""
    try:
        with open(path, encoding="utf-8") as file:
            names = json.load(file)
    except (OSError, ValueError) as error:
        raise ProfileError(f"sslProfile {profile}: uidNameMappingFile: {path}: {error}") from None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise ProfileError(f"sslProfile {profile}: uidNameMappingFile: {path}: not a JSON map of strings")
    return names


def identity_of(sock: TlsSocket, uid_format: str | None, names: Mapping[str, str]) -> Identity | None:
    """The peer after its handshake, None if it presented no (valid) certificate. Reads the certificate once: `ssl`
    decodes all of it for each call.

    Without a format, the user is the whole subject, such as `C=CZ,O=Example,CN=worker`; with a format, the parts in the
    order of its codes, separated by semicolons. `names` maps the result to a display name.
    """
    found: Mapping[str, Any] | None = sock.tls.getpeercert()
    if not found:
        return None
    subject: Subject = found["subject"]
    if uid_format:
        hashed = not DIGEST_CODES.keys().isdisjoint(uid_format)
        uid = chosen_parts(subject, (hashed and sock.tls.getpeercert(binary_form=True)) or b"", uid_format)
    else:
        uid = whole_subject(subject)
    return Identity(names.get(uid, uid), _certificate(found))


def whole_subject(subject: Subject) -> str:
    """The subject as text, in its own order: parts separated by commas, those of a multi-valued part by plus signs.

    Separators in values are escaped with a backslash (RFC 4514, 2.4), so that different subjects have different texts.
    """
    return ",".join(
        "+".join(f"{SHORT_NAMES.get(name, name)}={_escaped(value, ',+')}" for name, value in part) for part in subject
    )


def chosen_parts(subject: Subject, encoded: bytes, uid_format: str) -> str:
    """The parts that a uidFormat selects. A missing part is empty; at the end, it is omitted.

    Separators in values are escaped with a backslash, so that different parts have different texts.
    """
    fields = {SHORT_NAMES.get(name, name): value for part in subject for name, value in part}
    parts = [
        hashlib.new(DIGEST_CODES[code], encoded).hexdigest()
        if code in DIGEST_CODES
        else _escaped(fields.get(SUBJECT_CODES[code], ""), ";")
        for code in uid_format
    ]
    while parts and not parts[-1]:
        parts.pop()
    return ";".join(parts)


def _escaped(value: str, separators: str) -> str:
    return "".join(f"\\{char}" if char == "\\" or char in separators else char for char in value)
