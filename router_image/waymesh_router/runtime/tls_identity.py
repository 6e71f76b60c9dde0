"""Who a TLS peer is: the user name that SASL EXTERNAL gives to a verified client certificate.

Uses what `ssl` reports of the certificate; a certificate library would cost start-up time and memory for nothing.
"""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from waymesh_router.runtime.errors import HostError

Subject = Sequence[Sequence[tuple[str, str]]]
"""As `ssl` reports it: parts (relative distinguished names) of name and value, most often one in each part."""

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


def check_uid_format(profile: str, text: str) -> None:
    """Raises HostError when `text` holds anything but the codes c s l o u n 1 2 5, each at most once."""
    known = "".join((*SUBJECT_CODES, *DIGEST_CODES))
    if set(text) - set(known) or len(set(text)) != len(text):
        raise HostError(f"sslProfile {profile}: uidFormat: {text!r}: only the codes {known}, each once")


def read_name_map(profile: str, path: str) -> dict[str, str]:
    """The uidNameMappingFile: a JSON map of uid → user name. Raises HostError."""
    try:
        with open(path, encoding="utf-8") as file:
            names = json.load(file)
    except (OSError, ValueError) as error:
        raise HostError(f"sslProfile {profile}: uidNameMappingFile: {path}: {error}") from None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise HostError(f"sslProfile {profile}: uidNameMappingFile: {path}: is no JSON map of strings")
    return names


def external_user(sock: ssl.SSLSocket, uid_format: str | None, names: Mapping[str, str]) -> str | None:
    """The peer's user name, None when it presented no (valid) certificate.

    Without a format it is the whole subject, `C=CZ,O=Example,CN=worker`; with one the parts in the order of its codes,
    joined by semicolons. `names` maps the result to a friendlier name where it has one.
    """
    certificate: Mapping[str, Any] | None = sock.getpeercert()
    encoded = sock.getpeercert(binary_form=True)
    if not certificate or not encoded:
        return None
    subject: Subject = certificate["subject"]
    uid = chosen_parts(subject, encoded, uid_format) if uid_format else whole_subject(subject)
    return names.get(uid, uid)


def whole_subject(subject: Subject) -> str:
    """The subject as text, in its own order: parts joined by commas, those of a multi-valued part by plus signs.

    Separators in values are escaped by a backslash (RFC 4514, 2.4), so that no two subjects have the same text.
    """
    return ",".join(
        "+".join(f"{SHORT_NAMES.get(name, name)}={_escaped(value, ',+')}" for name, value in part) for part in subject
    )


def chosen_parts(subject: Subject, encoded: bytes, uid_format: str) -> str:
    """The parts that a uidFormat asks for. An absent part is empty, those at the end are left out.

    Separators in values are escaped by a backslash: no two choices of parts have the same text.
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
