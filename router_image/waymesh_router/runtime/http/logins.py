"""Logins of clients that ask for pages where `authenticatePeer` is yes: HTTP Basic and bearer tokens.

They are checked as the SASL mechanisms PLAIN and OAUTHBEARER (or XOAUTH2), with the users and tokens of the listener,
if its `saslMechanisms` allow these, over TLS only. RFC 7617, RFC 6750
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from waymesh_amqp.limits import MIN_MAX_FRAME
from waymesh_amqp.sasl import OK, Outcome, SaslServer
from waymesh_router.events.event import at, short
from waymesh_router.peers.mechanisms import server_sasl
from waymesh_router.runtime.http.message import Answer, Request, refusal

if TYPE_CHECKING:
    from waymesh_router.runtime.http.server import Owner
    from waymesh_router.runtime.workers import Workers

NEEDS_LOGIN = "authenticatePeer: the pages are for clients with {}"
NOT_ACCEPTED = "the login is not accepted"
TOO_MANY = "too many clients log in"
CERTIFICATE_SCHEME = "TLS-Client-Certificate"
"""In the answer 401, which must name a scheme (RFC 9110, 11.6.1). There is no registered one for certificates."""
BASIC = 'Basic realm="waymesh", charset="UTF-8"'
BEARER = 'Bearer realm="waymesh"'
RETRY_S = "1"
_PAIR = "\x01"

Admitted = Callable[[bool], Answer]
"""The answer to a client that has logged in, or that has not."""


class PageLogins:
    """The logins for the pages of one listener."""

    def __init__(self, owner: Owner, attrs: Mapping[str, Any], workers: Workers) -> None:
        """`workers`: for passwords; tokens have threads of their own."""
        self._owner = owner
        self._attrs = attrs
        self._workers = workers

    def refuse(self, *, secure: bool) -> Answer:
        """The answer to a client without a login."""
        offered = self._sasl(secure, "").offer() if secure else []
        schemes, names = [], ["a certificate"]
        if "PLAIN" in offered:
            schemes.append(BASIC)
            names.append("a password")
        if _bearer_of(offered):
            schemes.append(BEARER)
            names.append("a token")
        text = NEEDS_LOGIN.format(" or ".join(names))
        return refusal(HTTPStatus.UNAUTHORIZED, text, _challenges(schemes or [CERTIFICATE_SCHEME]))

    def check(
        self, request: Request, peer: str, wanted: Callable[[], bool], done: Callable[[Answer | None], None]
    ) -> Answer | None:
        """Check the login of a request over TLS in a thread, and call `done` with None if it is accepted, else with the
        answer. Or the answer, if it is refused at once. `wanted()`: whether the client still waits."""
        sasl = self._sasl(True, peer)
        given = sasl_of(request.field("authorization") or "", sasl.offer())
        if given is None:
            return self._refused(sasl)

        def work() -> bytes:
            step = sasl.init(*given)
            return b"ok" if isinstance(step, Outcome) and step.code == OK else b""

        def checked(result: bytes | Exception) -> None:
            if isinstance(result, Exception):
                self._owner.internal_error("while checking a login for a page", result)
            done(None if result == b"ok" else self._refused(sasl))

        source = peer.rpartition(":")[0]
        workers = (self._owner.tokens.workers(self._attrs) if given[0] != "PLAIN" else None) or self._workers
        if workers.submit(source, work, wanted, checked):
            return None
        return refusal(HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY, (("Retry-After", RETRY_S),))

    def wrong(self, peer: str) -> Answer:
        """The answer to a client whose login was not accepted."""
        return self._refused(self._sasl(True, peer))

    def _sasl(self, secure: bool, peer: str) -> SaslServer:
        """A SASL exchange like that of an AMQP client over TLS. An authentication service is not asked."""
        attrs, owner = self._attrs, self._owner
        tokens = owner.tokens.checker(attrs, at(str(attrs["name"]), peer)) if secure else None
        users = None if attrs.get("saslPlugin") else owner.users.authenticator(attrs)
        # PLAIN without TLS is allowed by allowInsecurePlain to AMQP clients only
        return server_sasl({**attrs, "allowInsecurePlain": False}, users, None, tokens, secured=secure)

    def _refused(self, sasl: SaslServer) -> Answer:
        offered = sasl.offer()
        schemes = [BASIC] * ("PLAIN" in offered)
        schemes += [f'{BEARER}, error="invalid_token"'] * bool(_bearer_of(offered))
        answer = refusal(HTTPStatus.UNAUTHORIZED, NOT_ACCEPTED, _challenges(schemes or [CERTIFICATE_SCHEME]))
        return replace(answer, failed_login=True, user=short(sasl.claimed))


def _challenges(schemes: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple(("WWW-Authenticate", scheme) for scheme in schemes)


def _bearer_of(offered: Sequence[str]) -> str | None:
    """The mechanism for bearer tokens."""
    return next((name for name in ("OAUTHBEARER", "XOAUTH2") if name in offered), None)


def sasl_of(field: str, offered: Sequence[str]) -> tuple[str, bytes] | None:
    """SASL mechanism and initial response with the login of the field Authorization; None if it is of another kind,
    malformed, or not offered."""
    scheme, _, given = field.partition(" ")
    given = given.strip(" ")
    if scheme.lower() == "basic" and "PLAIN" in offered:
        return _plain(given)
    mechanism = _bearer_of(offered)
    if scheme.lower() != "bearer" or mechanism is None or not given.isascii() or set(given) & {" ", ",", _PAIR}:
        return None
    start = "n,," + _PAIR if mechanism == "OAUTHBEARER" else ""
    return mechanism, f"{start}auth=Bearer {given}{_PAIR}{_PAIR}".encode()


def _plain(given: str) -> tuple[str, bytes] | None:
    """The message of PLAIN with the name and password of HTTP Basic."""
    try:
        user, colon, password = base64.b64decode(given, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    data = b"\0" + user + b"\0" + password
    if not colon or b"\0" in user + password or len(data) > MIN_MAX_FRAME:
        return None
    return "PLAIN", data
