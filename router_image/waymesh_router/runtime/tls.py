"""TLS contexts made from `sslProfile` entities.

A profile is made anew when one of its files has changed: that is looked at for each handshake, every few seconds, and
on SIGHUP. Files that cannot be loaded then leave the last good context in use and are reported.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.tls_expiry import not_after
from waymesh_schema.password import ENV, FILE, password_form

FILE_ATTRIBUTES = ("certFile", "privateKeyFile", "passwordFile")
"""Beside the files of authorities."""
PROTOCOLS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_EXCLUDED = {ssl.TLSVersion.TLSv1_1: ssl.OP_NO_TLSv1_1, ssl.TLSVersion.TLSv1_2: ssl.OP_NO_TLSv1_2}


_Stamp = tuple[int, int] | None


class _Use(NamedTuple):
    """What a context is for."""

    server: bool
    verify: ssl.VerifyMode
    check_hostname: bool
    authorities: str | None


class TlsProfile:
    """One `sslProfile` entity and the contexts made of it."""

    def __init__(self, attrs: Mapping[str, Any], report: Callable[[str, str], None]) -> None:
        """`attrs` validated; `report(level, text)` is told of reloads. Raises HostError when a file is unusable."""
        self.attrs = attrs
        self.name = str(attrs["name"])
        self._report = report
        self._contexts: dict[_Use, ssl.SSLContext] = {}
        self._authorities = [attrs["caCertFile"]] if attrs.get("caCertFile") else []
        self._stamps = self._read_stamps()
        ca = self._authorities[0] if self._authorities else None
        self._build(_Use(bool(attrs.get("certFile")), ssl.CERT_NONE, False, ca))
        self.not_after = self._read_end()
        """When its own certificate ends, in seconds since 1970; None without one."""

    def server_context(self, verify: ssl.VerifyMode, authorities: str | None = None) -> ssl.SSLContext:
        """The context for accepting connections; `authorities`: a PEM file in place of the profile's caCertFile.

        Raises HostError when it cannot be made.
        """
        if not self.attrs.get("certFile"):
            raise HostError(f"sslProfile {self.name}: certFile: is needed to accept TLS connections")
        ca = authorities or self.attrs.get("caCertFile")
        if verify != ssl.CERT_NONE and not ca:
            raise HostError(f"sslProfile {self.name}: caCertFile: is needed to verify client certificates")
        if ca and ca not in self._authorities:
            self._authorities.append(ca)
            self._stamps.append(_stamp(ca))
        return self._context(_Use(True, verify, False, ca))

    def client_context(self, verify_hostname: bool) -> ssl.SSLContext:
        """The context for opening connections: the peer's chain is always verified, its host name if asked."""
        return self._context(_Use(False, ssl.CERT_REQUIRED, verify_hostname, self.attrs.get("caCertFile")))

    def look(self) -> None:
        """Make the contexts anew if a file has changed."""
        if self._read_stamps() != self._stamps:
            self.reload()

    def reload(self) -> None:
        """Make the contexts anew, now. A failure is reported and changes nothing."""
        stamps = self._read_stamps()
        try:
            fresh = {use: self._build(use) for use in self._contexts}
        except HostError as error:
            self._report("error", f"{error}; going on with what was loaded before")
        else:
            self._contexts = fresh
            self.not_after = self._read_end()
            self._report("notice", f"sslProfile {self.name}: certificates were read again")
        self._stamps = stamps

    def _read_end(self) -> float | None:
        cert = self.attrs.get("certFile")
        if not cert:
            return None
        try:
            return not_after(Path(cert).read_text(encoding="latin-1"))
        except OSError:
            return None  # it was there a moment ago; the next look tells more

    def _context(self, use: _Use) -> ssl.SSLContext:
        self.look()
        if use not in self._contexts:
            self._contexts[use] = self._build(use)
        return self._contexts[use]

    def _read_stamps(self) -> list[_Stamp]:
        return [_stamp(self.attrs.get(attribute)) for attribute in FILE_ATTRIBUTES] + [
            _stamp(path) for path in self._authorities
        ]

    def _build(self, use: _Use) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if use.server else ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = use.check_hostname
        context.verify_mode = use.verify
        self._limit_protocols(context)
        self._limit_ciphers(context)
        self._load_certificate(context)
        self._load_authorities(context, use)
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
        for version, excluded in _EXCLUDED.items():  # only the ends of a range can be given as versions
            if versions[0] < version < versions[-1] and version not in versions:
                context.options |= excluded

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

    def _load_authorities(self, context: ssl.SSLContext, use: _Use) -> None:
        path = use.authorities
        if not path:
            if not use.server:
                context.load_default_certs()
            return
        attribute = "caCertFile" if path == self.attrs.get("caCertFile") else "trustedCertsFile"
        _check_readable(self.name, attribute, path)
        try:
            context.load_verify_locations(path)
        except ssl.SSLError as error:
            raise HostError(f"sslProfile {self.name}: {attribute} {path}: {error.reason or error}") from None


def key_password(profile: str, attrs: Mapping[str, Any]) -> str | None:
    """The private key's password: that of `password` (see `password_of`), or the first line of passwordFile."""
    text = attrs.get("password")
    if not text:
        path = attrs.get("passwordFile")
        return _first_line(f"sslProfile {profile}: passwordFile", path) if path else None
    return password_of(f"sslProfile {profile}: password", str(text))


def password_of(entity: str, text: str) -> str:
    """The password meant by `env:NAME`, `file:PATH`, `pass:TEXT`, `literal:TEXT` or the text itself.

    `entity`: the entity and attribute that say so, for the text of a HostError.
    """
    form, rest = password_form(text)
    if form == FILE:
        return _first_line(entity, rest)
    if form == ENV:
        value = os.environ.get(rest)
        if value is None:
            raise HostError(f"{entity}: environment variable {rest} is not set")
        return value
    return rest


def file_stamp(path: str | os.PathLike[str]) -> _Stamp:
    """Time of change and inode of a file, for telling that it changed; None: it cannot be looked at.

    A Kubernetes volume changes by a swapped link, and a new file may be older than the one before.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def listener_verify_mode(attrs: Mapping[str, Any], has_authorities: bool) -> ssl.VerifyMode:
    """Whether a listener wants a client certificate; `has_authorities`: its profile says whom to trust (caCertFile).

    EXTERNAL as the only mechanism cannot work without one, nor can `peerNames`; beside others EXTERNAL is one way in,
    so a client may come without. A certificate that is presented must be valid in both cases.
    """
    mechanisms = str(attrs.get("saslMechanisms") or "").upper().split()
    if mechanisms == ["EXTERNAL"] or attrs.get("peerNames"):
        return ssl.CERT_REQUIRED
    if "EXTERNAL" in mechanisms or (attrs.get("authenticatePeer") and not mechanisms and has_authorities):
        return ssl.CERT_OPTIONAL
    return ssl.CERT_NONE


def _stamp(path: str | None) -> _Stamp:
    return file_stamp(path) if path else None


def _first_line(entity: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise HostError(f"{entity}: {path}: {getattr(error, 'strerror', None) or error}") from None


def _check_readable(profile: str, attribute: str, path: str) -> None:
    """`ssl` names no file in its errors."""
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise HostError(f"sslProfile {profile}: {attribute}: {path}: {error.strerror}") from None
