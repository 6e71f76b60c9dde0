"""A blocking request-reply channel to one router, on proton: connection, links and errors."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import proton
from proton.utils import BlockingConnection, SendException, SyncRequestResponse

from waymesh_client.errors import ConnectionFailed, NoRoute, RequestTimeout
from waymesh_client.tls_files import check_files

_CONDITION = re.compile(r"Condition\('([^']*)',\s*(?:'([^']*)'|\"([^\"]*)\")")
_CLOSE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS of a connection: PEM file paths; `verify_name` False accepts any name in the certificate.

    `server_name` is the name that the certificate must have, if it differs from the host.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    verify_name: bool = True
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class Sasl:
    """SASL of a connection; `mechanisms` are separated by blanks, None: all supported ones."""

    mechanisms: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a router listens."""

    scheme: str
    host: str
    port: int
    path: str | None
    user: str | None
    password: str | None = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Read `host`, `host:port` or `amqp[s]://user:password@host:port/address`. Raises ValueError, whose text has no
        part of the URL: it could be the password."""
        try:
            parts = urlsplit(url if "://" in url else f"amqp://{url}")
        except ValueError:
            raise ValueError("the address of the router is not a URL") from None
        if parts.scheme not in ("amqp", "amqps"):
            raise ValueError("the address of the router: the scheme must be amqp or amqps")
        try:
            port = parts.port or (5671 if parts.scheme == "amqps" else 5672)
        except ValueError:
            raise ValueError("the address of the router: the port must be a number up to 65535") from None
        user, password = (None if text is None else unquote(text) for text in (parts.username, parts.password))
        return cls(parts.scheme, parts.hostname or "127.0.0.1", port, parts.path[1:] or None, user, password)


class Channel:
    """Connects at the first use, and again after a failure or a time-out, and when the connection was not used for
    `unused_s`: no heartbeats are sent between requests, so that a router closes it."""

    def __init__(self, endpoint: Endpoint, timeout_s: float, tls: Tls | None, sasl: Sasl) -> None:
        self.endpoint = endpoint
        self._timeout_s = timeout_s
        self._tls = tls if tls is not None or endpoint.scheme == "amqp" else Tls()
        self._sasl = sasl
        self.unused_s = math.inf
        self.answered_at = -math.inf
        """When the last reply came, on the monotonic clock."""
        self._used_at = math.inf
        self._connection: BlockingConnection | None = None
        self._links: dict[str, SyncRequestResponse] = {}

    def call(self, address: str, request: proton.Message) -> proton.Message:
        """Send a request to an address and wait for its reply. Raises ClientError."""
        if time.monotonic() - self._used_at >= self.unused_s:
            self.close()
        try:
            reply = self._link(address).call(request)
        except proton.Timeout:
            # A late reply would use the credit for the next reply, so the next call needs a new connection.
            self.close()
            raise RequestTimeout(f"no answer from {address} within {self._timeout_s:g} s") from None
        except (proton.LinkException, SendException) as error:
            self._links.pop(address, None)
            raise NoRoute(f"{address}: {_reason(error)}") from None
        except (proton.ProtonException, OSError, UnicodeError) as error:
            self.close()
            raise self._failed(error) from None
        finally:
            self._used_at = time.monotonic()
        self.answered_at = self._used_at
        return reply

    def close(self) -> None:
        """Close the connection. Never raises an error, and takes at most a second."""
        connection, self._connection = self._connection, None
        self._links = {}
        opened = None if connection is None else connection.conn
        if connection is None or opened is None:
            return
        connection.timeout = _CLOSE_TIMEOUT_S
        links = list(_links(opened))
        with contextlib.suppress(proton.ProtonException, OSError):
            connection.close()
        # Proton's C objects and these Python objects refer to each other. The garbage collector does not see this cycle
        # and would not free 1.7 MB per connection.
        opened._overrides = None
        for link in links:
            link.handler = None

    def connect(self) -> BlockingConnection:
        """The open connection, created if needed. Raises ConnectionFailed or UnusableFile."""
        if self._connection is None:
            try:
                self._connection = self._open()
                self._used_at = time.monotonic()
            except proton.Timeout:
                raise self._failed(f"no answer within {self._timeout_s:g} s") from None
            except (proton.ProtonException, OSError, UnicodeError) as error:  # UnicodeError: `a..b` is no host name
                raise self._failed(error) from None
        return self._connection

    def _link(self, address: str) -> SyncRequestResponse:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = SyncRequestResponse(self.connect(), address)
        return link

    def _open(self) -> BlockingConnection:
        where = self.endpoint
        host = f"[{where.host}]" if ":" in where.host else where.host
        return BlockingConnection(
            f"{'amqps' if self._tls else 'amqp'}://{host}:{where.port}",
            timeout=self._timeout_s,
            ssl_domain=None if self._tls is None else _domain(self._tls),
            sasl_enabled=True,
            allowed_mechs=self._sasl.mechanisms,
            user=self._sasl.user or where.user,
            password=self._sasl.password or where.password,
            sni=self._tls.server_name if self._tls else None,
        )

    def _failed(self, error: Exception | str) -> ConnectionFailed:
        return ConnectionFailed(self.endpoint.host, self.endpoint.port, _reason(error))


def _links(connection: proton.Connection) -> Iterator[proton.Link]:
    link = connection.link_head(0)
    while link is not None:
        yield link
        link = link.next(0)


def _domain(tls: Tls) -> proton.SSLDomain:
    check_files(tls.ca, tls.certificate, tls.key, tls.key_password)
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    if tls.certificate is not None:
        domain.set_credentials(tls.certificate, tls.key or tls.certificate, tls.key_password)
    if tls.ca is not None:
        domain.set_trusted_ca_db(tls.ca)
    if not tls.verify:
        domain.set_peer_authentication(proton.SSLDomain.ANONYMOUS_PEER)
    elif tls.ca is not None or not tls.verify_name:  # without `ca`: the authorities that the system trusts
        mode = proton.SSLDomain.VERIFY_PEER_NAME if tls.verify_name else proton.SSLDomain.VERIFY_PEER
        domain.set_peer_authentication(mode, tls.ca)
    return domain


def _reason(error: Exception | str) -> str:
    """The description in the condition of the peer or of proton; the whole text if there is no condition."""
    text = str(error)
    condition = _CONDITION.search(text)
    if condition is None:
        return text or type(error).__name__
    return condition[2] or condition[3] or condition[1]
