"""Who a TLS peer is: the user name that SASL EXTERNAL gives to a verified client certificate.

Uses what `ssl` reports of the certificate; a certificate library would cost start-up time and memory for nothing.
"""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Mapping
from typing import Any

from waymesh_router.runtime.errors import HostError

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
    joined by semicolons, absent parts left out. `names` maps the result to a friendlier name where it has one.
    """
    certificate: Mapping[str, Any] | None = sock.getpeercert()
    encoded = sock.getpeercert(binary_form=True)
    if not certificate or not encoded:
        return None
    subject = [(SHORT_NAMES.get(name, name), value) for part in certificate["subject"] for name, value in part]
    if not uid_format:
        uid = ",".join(f"{name}={value}" for name, value in subject)
    else:
        uid = ";".join(_parts(subject, encoded, uid_format))
    return names.get(uid, uid)


def _parts(subject: list[tuple[str, str]], encoded: bytes, uid_format: str) -> list[str]:
    fields = dict(subject)
    parts = []
    for code in uid_format:
        if code in DIGEST_CODES:
            parts.append(hashlib.new(DIGEST_CODES[code], encoded).hexdigest())
        elif SUBJECT_CODES[code] in fields:
            parts.append(fields[SUBJECT_CODES[code]])
    return parts
