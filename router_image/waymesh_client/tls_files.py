"""Checks the files of a TLS connection: proton only reports "SSL failure", whichever file it cannot use."""

from __future__ import annotations

import ssl
from pathlib import Path

from waymesh_client.errors import UnusableFile

TRUSTED = "trusted certificates"
CERTIFICATE = "client certificate"
KEY = "private key"


def check_files(ca: str | None, certificate: str | None, key: str | None, key_password: str | None) -> None:
    """Check that the PEM files can be used. Raises UnusableFile."""
    for what, file in ((TRUSTED, ca), (CERTIFICATE, certificate), (KEY, key)):
        if file is not None:
            _read(what, file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # proton checks the strength of keys
    for what, file in ((TRUSTED, ca), (CERTIFICATE, certificate)):
        if file is not None:
            _load_certificates(context, what, file)
    if certificate is not None:
        _load_pair(context, certificate, key or certificate, key_password)


def _read(what: str, file: str) -> None:
    try:
        Path(file).read_bytes()
    except OSError as error:
        raise UnusableFile(f"{what} {file}: {error.strerror or error}") from None


def _load_certificates(context: ssl.SSLContext, what: str, file: str) -> None:
    try:
        context.load_verify_locations(file)
    except OSError:
        raise UnusableFile(f"{what} {file}: not a certificate in PEM format") from None


def _load_pair(context: ssl.SSLContext, certificate: str, key: str, key_password: str | None) -> None:
    """Without a password, OpenSSL must not prompt for one: the session may not be interactive."""
    try:
        context.load_cert_chain(certificate, key, lambda: key_password or "")
    except (OSError, ValueError) as error:  # ValueError: a password that is too long
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise UnusableFile(f"{KEY} {key}: is not that of {CERTIFICATE} {certificate}") from None
        needs = "is not right for it" if key_password else "is missing"
        raise UnusableFile(f"{KEY} {key}: not a key in PEM format, or its password {needs}") from None
