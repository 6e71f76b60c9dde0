"""TLS contexts made from `sslProfile` entities.

A profile is looked at again when one of its files has changed, at the next handshake, or at once on SIGHUP. Files that
cannot be loaded then leave the last good context in use and are reported.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from waymesh_router.runtime.errors import HostError

FILE_ATTRIBUTES = ("certFile", "privateKeyFile", "caCertFile", "passwordFile")
PROTOCOLS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


class TlsProfile:
    """One `sslProfile` entity and the contexts made of it."""

    def __init__(self, attrs: Mapping[str, Any], report: Callable[[str], None]) -> None:
        """`attrs` validated; `report(text)` is told of a failed reload. Raises HostError when a file is unusable."""
        self.attrs = attrs
        self.name = str(attrs["name"])
        self._report = report
        self._contexts: dict[tuple[bool, ssl.VerifyMode, bool], ssl.SSLContext] = {}
        self._stamps = self._read_stamps()
        self._build(server=bool(attrs.get("certFile")), verify=ssl.CERT_NONE, check_hostname=False)

    def server_context(self, verify: ssl.VerifyMode) -> ssl.SSLContext:
        """The context for accepting connections. Raises HostError when it cannot be made."""
        if not self.attrs.get("certFile"):
            raise HostError(f"sslProfile {self.name}: certFile: is needed to accept TLS connections")
        if verify != ssl.CERT_NONE and not self.attrs.get("caCertFile"):
            raise HostError(f"sslProfile {self.name}: caCertFile: is needed to verify client certificates")
        return self._context(True, verify, False)

    def client_context(self, verify_hostname: bool) -> ssl.SSLContext:
        """The context for opening connections: the peer's chain is always verified, its host name if asked."""
        return self._context(False, ssl.CERT_REQUIRED, verify_hostname)

    def reload(self) -> None:
        """Make the contexts anew, now. A failure is reported and changes nothing."""
        stamps = self._read_stamps()
        try:
            fresh = {key: self._build(*key) for key in self._contexts}
        except HostError as error:
            self._report(f"{error}; going on with what was loaded before")
        else:
            self._contexts = fresh
        self._stamps = stamps

    def _context(self, server: bool, verify: ssl.VerifyMode, check_hostname: bool) -> ssl.SSLContext:
        if self._read_stamps() != self._stamps:
            self.reload()
        key = (server, verify, check_hostname)
        if key not in self._contexts:
            self._contexts[key] = self._build(*key)
        return self._contexts[key]

    def _read_stamps(self) -> list[tuple[int, int] | None]:
        """Time of change and inode (a Kubernetes secret changes by a swapped link) of each file."""
        stamps: list[tuple[int, int] | None] = []
        for attribute in FILE_ATTRIBUTES:
            path = self.attrs.get(attribute)
            try:
                status = os.stat(path) if path else None
            except OSError:
                status = None  # reported when it is loaded
            stamps.append((status.st_mtime_ns, status.st_ino) if status else None)
        return stamps

    def _build(self, server: bool, verify: ssl.VerifyMode, check_hostname: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = check_hostname
        context.verify_mode = verify
        self._limit_protocols(context)
        self._limit_ciphers(context)
        self._load_certificate(context)
        self._load_authorities(context, server)
        return context

    def _limit_protocols(self, context: ssl.SSLContext) -> None:
        text = self.attrs.get("protocols")
        if not text:
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            return
        try:
            versions = sorted(PROTOCOLS[word] for word in str(text).split())
        except KeyError as error:
            known = " ".join(PROTOCOLS)
            raise HostError(f"sslProfile {self.name}: protocols: {error.args[0]} is none of {known}") from None
        context.minimum_version = versions[0]
        context.maximum_version = versions[-1]

    def _limit_ciphers(self, context: ssl.SSLContext) -> None:
        text = self.attrs.get("ciphers")
        if not text:
            return
        try:
            context.set_ciphers(str(text))
        except ssl.SSLError:
            raise HostError(f"sslProfile {self.name}: ciphers: no usable cipher in {text!r}") from None

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        cert = self.attrs.get("certFile")
        if not cert:
            return
        key = self.attrs.get("privateKeyFile")
        _check_readable(self.name, "certFile", cert)
        if key:
            _check_readable(self.name, "privateKeyFile", key)
        # Always given, even if empty: without it OpenSSL would ask on the terminal.
        password = key_password(self.name, self.attrs) or ""
        try:
            context.load_cert_chain(cert, key or None, lambda: password)
        except ssl.SSLError as error:
            reason = error.reason or "wrong password or not a PEM file"
            raise HostError(f"sslProfile {self.name}: certFile {cert}, privateKeyFile {key}: {reason}") from None

    def _load_authorities(self, context: ssl.SSLContext, server: bool) -> None:
        path = self.attrs.get("caCertFile")
        if not path:
            if not server:
                context.load_default_certs()
            return
        _check_readable(self.name, "caCertFile", path)
        try:
            context.load_verify_locations(path)
        except ssl.SSLError as error:
            raise HostError(f"sslProfile {self.name}: caCertFile {path}: {error.reason or error}") from None


def key_password(profile: str, attrs: Mapping[str, Any]) -> str | None:
    """The private key's password: `env:NAME`, `file:PATH`, `pass:TEXT`, `literal:TEXT`, the text, or passwordFile."""
    text = attrs.get("password")
    if not text:
        path = attrs.get("passwordFile")
        return _first_line(profile, "passwordFile", path) if path else None
    form, colon, rest = str(text).partition(":")
    if not colon or form not in ("env", "file", "pass", "literal"):
        return str(text)
    if form == "file":
        return _first_line(profile, "password", rest)
    if form == "env":
        value = os.environ.get(rest)
        if value is None:
            raise HostError(f"sslProfile {profile}: password: environment variable {rest} is not set")
        return value
    return rest


def listener_verify_mode(attrs: Mapping[str, Any], has_authorities: bool) -> ssl.VerifyMode:
    """Whether a listener wants a client certificate; `has_authorities`: its profile says whom to trust (caCertFile).

    EXTERNAL as the only mechanism cannot work without one; beside others it is one way in, so a client may come
    without. A certificate that is presented must be valid in both cases.
    """
    mechanisms = str(attrs.get("saslMechanisms") or "").upper().split()
    if mechanisms == ["EXTERNAL"]:
        return ssl.CERT_REQUIRED
    if "EXTERNAL" in mechanisms or (attrs.get("authenticatePeer") and not mechanisms and has_authorities):
        return ssl.CERT_OPTIONAL
    return ssl.CERT_NONE


def _first_line(profile: str, attribute: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except OSError as error:
        raise HostError(f"sslProfile {profile}: {attribute}: {path}: {error.strerror}") from None


def _check_readable(profile: str, attribute: str, path: str) -> None:
    """`ssl` names no file in its errors."""
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise HostError(f"sslProfile {profile}: {attribute}: {path}: {error.strerror}") from None
