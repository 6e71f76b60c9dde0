"""TLS contexts created from `sslProfile` entities.

A profile is reloaded when one of its files has changed, which is checked at each handshake, every few seconds, and on
SIGHUP. If files cannot be loaded, the last good context stays in use and the error is reported.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from waymesh_router.events.event import Event, ModuleLog
from waymesh_router.peers.certificate import Validity
from waymesh_router.runtime.errors import HostError, ProfileError
from waymesh_router.runtime.tls.expiry import encoded, validity_of
from waymesh_router.runtime.tls.identity import Identity, identity_of, read_name_map
from waymesh_router.runtime.tls.revocation import Serial, revoked_serials
from waymesh_router.runtime.tls.sockets import TlsSocket
from waymesh_schema.events import LogEvent
from waymesh_schema.password import ENV, FILE, password_form

FILE_ATTRIBUTES = (
    "certFile", "privateKeyFile", "passwordFile", "caCertFile", "crlFile", "uidNameMappingFile",
)  # fmt: skip
"""Files that are checked for changes, with the trustedCertsFile of listeners."""
PROTOCOLS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
NO_TRUST = "SSL CA configuration failed"
"""Begins the line about a profile whose authorities cannot be read, as in Dispatch."""
NO_PROTOCOL = "none"
"""Value of `protocols` with which every handshake fails."""
_EXCLUDED = {ssl.TLSVersion.TLSv1_1: ssl.OP_NO_TLSv1_1, ssl.TLSVersion.TLSv1_2: ssl.OP_NO_TLSv1_2}


_Stamp = tuple[int, int] | None


class _Use(NamedTuple):
    """The purpose of a context. `authorities`: a file in place of the profile's caCertFile."""

    server: bool
    verify: ssl.VerifyMode
    check_hostname: bool
    authorities: str | None


class TlsProfile:
    """One `sslProfile` entity and its contexts."""

    def __init__(self, attrs: Mapping[str, Any], report: ModuleLog) -> None:
        """`attrs`: validated; `report` is called about reloads. Raises HostError if a file is unusable."""
        self.attrs = attrs
        self.name = str(attrs["name"])
        self._report = report
        self._contexts: dict[_Use, ssl.SSLContext] = {}
        self._paths = [str(attrs[name]) for name in FILE_ATTRIBUTES if attrs.get(name)]  # and of `authorities`
        self._stamps = self._read_stamps()
        self._build(_Use(bool(attrs.get("certFile")), ssl.CERT_NONE, False, None))
        self._names = self._read_names()
        self._peers = self._read_peers()
        self.revoked = self._read_revoked()
        """The certificates that its crlFile revokes."""
        self.validity = self._read_validity()
        """The validity of its own certificate; None without one."""
        self.loads = 1
        """How often its files or attributes were loaded."""

    def server_context(self, verify: ssl.VerifyMode, authorities: str | None = None) -> ssl.SSLContext:
        """The context for accepting connections; `authorities`: a PEM file that replaces the profile's caCertFile.

        Raises HostError if it cannot be created.
        """
        if not self.attrs.get("certFile"):
            raise HostError(f"sslProfile {self.name}: certFile: is needed to accept TLS connections")
        if verify != ssl.CERT_NONE and not (authorities or self.attrs.get("caCertFile")):
            raise HostError(f"sslProfile {self.name}: caCertFile: is needed to verify client certificates")
        if authorities and authorities not in self._paths:
            self._paths.append(authorities)
            self._stamps.append(file_stamp(authorities))
        return self._context(_Use(True, verify, False, authorities))

    def client_context(self, verify_hostname: bool) -> ssl.SSLContext:
        """The context for opening connections: always verifies the peer's chain, and its host name if requested."""
        return self._context(_Use(False, ssl.CERT_REQUIRED, verify_hostname, None))

    def refused_peer(self, sock: TlsSocket) -> str | None:
        """The reason to refuse a peer after its handshake, None if there is none. With `peersOnly`, the peer's own
        certificate must be trusted; a trusted issuer is not enough."""
        if self._peers is None:
            return None
        certificate = sock.tls.getpeercert(binary_form=True)
        if certificate is None or certificate in self._peers:
            return None
        return "the certificate of the peer is not itself in caCertFile, which peersOnly requires"

    def identity_of(self, sock: TlsSocket) -> Identity | None:
        """Who the peer is, by its certificate; None if it presented none."""
        return identity_of(sock, self.attrs.get("uidFormat"), self._names)

    def replace_with(self, other: TlsProfile) -> None:
        """Adopt the attributes and contexts of a profile that was created to replace this one."""
        self.attrs, self._contexts = other.attrs, other._contexts
        self._paths, self._stamps = other._paths, other._stamps
        self._names, self._peers, self.validity = other._names, other._peers, other.validity
        self.revoked = other.revoked
        self.loads += 1

    def poll(self) -> None:
        """Recreate the contexts if a file has changed."""
        if self._read_stamps() != self._stamps:
            self.reload()

    def reload(self) -> None:
        """Recreate the contexts now. A failure is reported and changes nothing."""
        stamps = self._read_stamps()
        try:
            fresh = {use: self._build(use) for use in self._contexts}
            names, peers, revoked = self._read_names(), self._read_peers(), self._read_revoked()
        except HostError as error:
            event = self._event(LogEvent.CERTIFICATE_FAILED)
            self._report("error", f"{error}; the files loaded before stay in use", event)
        else:
            self._contexts, self._names, self._peers, self.revoked = fresh, names, peers, revoked
            self.validity = self._read_validity()
            self.loads += 1
            text = f"sslProfile {self.name}: certificates were reloaded"
            self._report("notice", text, self._event(LogEvent.CERTIFICATE_READ))
        self._stamps = stamps

    def _event(self, kind: LogEvent) -> Event:
        return Event(kind, detail={"sslProfile": self.name})

    def _read_validity(self) -> Validity | None:
        cert = self.attrs.get("certFile")
        if not cert:
            return None
        try:
            return validity_of(Path(cert).read_text(encoding="latin-1"))
        except OSError:
            return None  # the file has just been removed; the next check handles this

    def _read_revoked(self) -> frozenset[Serial]:
        path = self.attrs.get("crlFile")
        try:
            return revoked_serials(Path(path).read_bytes()) if path else frozenset()
        except (OSError, ValueError) as error:
            raise ProfileError(f"sslProfile {self.name}: crlFile {path}: {error}") from None

    def _read_names(self) -> dict[str, str]:
        path = self.attrs.get("uidNameMappingFile")
        return read_name_map(self.name, path) if path else {}

    def _read_peers(self) -> frozenset[bytes] | None:
        """The trusted certificates of `peersOnly`, from the file: `ssl` contexts list only those of authorities."""
        path = self.attrs.get("caCertFile")
        if not self.attrs.get("peersOnly") or not path:
            return None
        try:
            return frozenset(encoded(Path(path).read_text(encoding="latin-1")))
        except (OSError, ValueError) as error:
            raise ProfileError(f"sslProfile {self.name}: caCertFile: {path}: {error}") from None

    def _context(self, use: _Use) -> ssl.SSLContext:
        self.poll()
        if use not in self._contexts:
            self._contexts[use] = self._build(use)
        return self._contexts[use]

    def _read_stamps(self) -> list[_Stamp]:
        return [file_stamp(path) for path in self._paths]

    def _build(self, use: _Use) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if use.server else ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = use.check_hostname
        context.verify_mode = use.verify
        context.options |= ssl.OP_NO_RENEGOTIATION  # a renegotiation costs the router more than the client
        self._limit_protocols(context)
        self._limit_ciphers(context)
        self._load_certificate(context)
        self._load_authorities(context, use)
        self._load_revocations(context)
        return context

    def _limit_protocols(self, context: ssl.SSLContext) -> None:
        text = self.attrs.get("protocols")
        if not text:
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            return
        if text == NO_PROTOCOL:
            context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2
            return
        versions = versions_of(self.name, str(text))
        context.minimum_version = versions[0]
        context.maximum_version = versions[-1]
        for version, excluded in _EXCLUDED.items():  # `ssl` only accepts a range of versions
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
        # Always set, even if empty: without a password OpenSSL would prompt on the terminal.
        password = key_password(self.name, self.attrs) or ""
        try:
            context.load_cert_chain(cert, key or None, lambda: password)
        except ssl.SSLError as error:
            reason = error.reason or "wrong password or not a PEM file"
            raise HostError(f"sslProfile {self.name}: certFile {cert}, privateKeyFile {key}: {reason}") from None

    def _load_authorities(self, context: ssl.SSLContext, use: _Use) -> None:
        path = use.authorities or self.attrs.get("caCertFile")
        if not path:
            if not use.server:
                context.load_default_certs()
            return
        self._load_trust(context, "trustedCertsFile" if use.authorities else "caCertFile", path)
        if self.attrs.get("peersOnly"):
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # also trust certificates that are not self-signed
        if use.server and use.verify != ssl.CERT_NONE:
            # No session resumption: a resumed session would skip the checks of dates and revocation lists.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET

    def _load_revocations(self, context: ssl.SSLContext) -> None:
        path = self.attrs.get("crlFile")
        if not path:
            return
        before = context.cert_store_stats()
        self._load_trust(context, "crlFile", path)
        after = context.cert_store_stats()
        if after["crl"] == before["crl"] or after["x509"] != before["x509"]:  # its certificates would be trusted
            raise ProfileError(f"sslProfile {self.name}: crlFile {path}: must only contain revocation lists")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN

    def _load_trust(self, context: ssl.SSLContext, attribute: str, path: str) -> None:
        try:
            _check_readable(self.name, attribute, path)
            context.load_verify_locations(path)
        except HostError as error:
            raise ProfileError(f"{NO_TRUST}: {error}") from None
        except ssl.SSLError as error:
            raise ProfileError(
                f"{NO_TRUST}: sslProfile {self.name}: {attribute} {path}: {error.reason or error}"
            ) from None


def versions_of(profile: str, protocols: str) -> list[ssl.TLSVersion]:
    """The versions in `protocols` of a profile, the oldest first. Raises ProfileError for an unknown one."""
    try:
        return sorted(PROTOCOLS[word] for word in protocols.split())
    except KeyError as error:
        known = " ".join(PROTOCOLS)
        raise ProfileError(f"sslProfile {profile}: protocols: {error.args[0]} is not one of {known}") from None


def key_password(profile: str, attrs: Mapping[str, Any]) -> str | None:
    """The private key's password: from `password` (see `password_of`), or the first line of passwordFile."""
    text = attrs.get("password")
    if not text:
        path = attrs.get("passwordFile")
        return _first_line(f"sslProfile {profile}: passwordFile", path) if path else None
    return password_of(f"sslProfile {profile}: password", str(text))


def password_of(entity: str, text: str) -> str:
    """The password given as `env:NAME`, `file:PATH`, `pass:TEXT`, `literal:TEXT` or plain text.

    `entity`: entity and attribute of the password, for the text of a HostError.
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
    """Modification time and inode of a file, to detect changes; None if the file is not accessible.

    Kubernetes updates a volume by swapping a symbolic link, and a new file may be older than the previous one.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _first_line(entity: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            line = file.readline().rstrip("\r\n")
    except OSError as error:
        raise HostError(f"{entity}: {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:  # its text has a part of the password
        raise HostError(f"{entity}: {path}: not UTF-8 text") from None
    if "\0" in line:
        raise HostError(f"{entity}: {path}: contains NUL")
    return line


def _check_readable(profile: str, attribute: str, path: str) -> None:
    """Raise an error with the file name, because `ssl` does not name it."""
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise HostError(f"sslProfile {profile}: {attribute}: {path}: {error.strerror}") from None
