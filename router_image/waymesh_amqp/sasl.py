"""SASL mechanisms: ANONYMOUS, PLAIN, EXTERNAL and SCRAM as server and client, bearer tokens as server. Spec: 5.3

This module is independent of frames: the connection converts steps to sasl-challenge and sasl-outcome, and the client's
answers to sasl-init and sasl-response.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from waymesh_amqp.bearer import BEARER_MECHANISMS, FAILURE, MAX_FRAME, BearerError, TokenChecker, identify
from waymesh_amqp.credentials import SCRAM_MECHANISMS, Authenticator, Credential, ScramKeys, prepared
from waymesh_amqp.errors import ILLEGAL_STATE, UNAUTHORIZED_ACCESS, AmqpError
from waymesh_amqp.limits import MIN_MAX_FRAME
from waymesh_amqp.users import UserFile, UserFileError, make_line

if TYPE_CHECKING:
    from waymesh_amqp.scram import ClientExchange

__all__ = [
    "MECHANISMS",
    "SERVER_MECHANISMS",
    "Authenticator",
    "Challenge",
    "Credential",
    "Outcome",
    "SaslClient",
    "SaslServer",
    "SaslStep",
    "ScramKeys",
    "TokenChecker",
    "UserFile",
    "UserFileError",
    "make_line",
]

MECHANISMS: tuple[str, ...] = ("EXTERNAL", *SCRAM_MECHANISMS, "PLAIN", "ANONYMOUS")
"""The mechanisms of a client, in order of preference."""
SERVER_MECHANISMS: tuple[str, ...] = ("EXTERNAL", *BEARER_MECHANISMS, *SCRAM_MECHANISMS, "PLAIN", "ANONYMOUS")
"""The mechanisms of a server, in the order in which they are offered."""

OK, AUTH, SYS, SYS_PERM, SYS_TEMP = range(5)  # Spec: 5.3.3.6
_CODE_NAMES = ("ok", "auth", "sys", "sys-perm", "sys-temp")

ANONYMOUS_USER = "anonymous"


@dataclass(frozen=True, slots=True)
class Challenge:
    """Send a sasl-challenge with this data."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """Send a sasl-outcome: code 0 admits `user`, all others are refusals.

    `groups` and `expires_at`: from the `Identity` of a token.
    """

    code: int
    user: str | None = None
    data: bytes | None = None
    groups: tuple[str, ...] = ()
    expires_at: float = math.inf


SaslStep: TypeAlias = Challenge | Outcome

REFUSED = Outcome(AUTH)


def _random_nonce() -> str:
    return os.urandom(24).hex()


def _known(mechanisms: Sequence[str], possible: Sequence[str]) -> tuple[str, ...]:
    for name in mechanisms:
        if name not in possible:
            raise ValueError(f"unknown SASL mechanism {name!r}, expected some of {', '.join(possible)}")
    return tuple(name for name in possible if name in mechanisms)


class SaslServer:
    """The server side of one connection. All refusals look the same, whatever the reason.

    `external_user`: the name that the transport has authenticated (of the client certificate), if any.
    `nonce`: returns printable ASCII without commas, new on each call. `tokens`: None if bearer tokens are not accepted.
    """

    def __init__(
        self,
        mechanisms: Sequence[str],
        authenticator: Authenticator | None,
        external_user: str | None = None,
        nonce: Callable[[], str] = _random_nonce,
        tokens: TokenChecker | None = None,
    ) -> None:
        self._mechanisms = _known(mechanisms, SERVER_MECHANISMS)
        self._authenticator = authenticator
        self._tokens = tokens
        self._external_user = external_user
        self._nonce = nonce
        self._respond: Callable[[bytes], SaslStep] | None = None
        self._started = False
        self.claimed = ""
        """The name that the client sent, if it is a known user. Other names may be passwords in the wrong field."""

    def offer(self) -> list[str]:
        """The mechanisms that can succeed on this connection, in order of preference."""
        return [name for name in self._mechanisms if self._possible(name)]

    @property
    def max_frame(self) -> int:
        """Maximum size of the client's SASL frames. Spec: 5.3.1"""
        return MIN_MAX_FRAME if self._tokens is None else MAX_FRAME

    def _possible(self, name: str) -> bool:
        if name == "EXTERNAL":
            return self._external_user is not None
        if name in BEARER_MECHANISMS:
            return self._tokens is not None
        if name == "ANONYMOUS" or self._authenticator is None:
            return name == "ANONYMOUS"
        return name == "PLAIN" or self._authenticator.serves(name)

    def hashes(self, mechanism: str) -> bool:
        """Whether an answer with this mechanism may take long: it computes PBKDF2 or checks a token."""
        if mechanism in BEARER_MECHANISMS:
            return self._tokens is not None
        return self._authenticator is not None and self._authenticator.hashes(mechanism)

    def init(self, mechanism: str, initial_response: bytes | None, hostname: str | None = None) -> SaslStep:
        """Answer sasl-init. A mechanism that was not offered ends with code auth. Spec: 5.3.3.2"""
        if self._started or mechanism not in self.offer():
            return REFUSED
        self._started = True
        if mechanism == "ANONYMOUS":
            return Outcome(OK, ANONYMOUS_USER)
        if mechanism == "EXTERNAL":
            return self._external(initial_response or b"")  # no challenge if it is absent: its content is optional
        if mechanism in BEARER_MECHANISMS:
            self._respond = self._bearer(mechanism)
        else:
            self._respond = self._plain if mechanism == "PLAIN" else self._scram(mechanism)
        if initial_response is None:
            return Challenge(b"")  # RFC 4422, 5.1: an empty challenge requests the initial response
        return self.response(initial_response)

    def response(self, data: bytes) -> SaslStep:
        """Answer sasl-response."""
        respond, self._respond = self._respond, None
        return REFUSED if respond is None else respond(data)

    def _external(self, data: bytes) -> SaslStep:
        """RFC 4422, appendix A: the data is the authorization identity, or empty. A client without a name, such as
        that of a certificate without a subject, has the rights of an unauthenticated client."""
        user = self._external_user
        if user is None or data not in (b"", user.encode("utf-8")):
            return REFUSED
        return Outcome(OK, user or ANONYMOUS_USER)

    def _plain(self, data: bytes) -> SaslStep:
        """RFC 4616: [authzid] NUL authcid NUL passwd. An authzid of another user is refused."""
        try:
            parts = data.decode("utf-8").split("\0")
        except UnicodeDecodeError:
            return REFUSED
        if len(parts) != 3 or self._authenticator is None:
            return REFUSED
        authzid, user, password = parts
        self._claim(user)
        if not user or not password or authzid not in ("", user):
            return REFUSED
        return Outcome(OK, prepared(user)) if self._authenticator.verify_plain(user, password) else REFUSED

    def _claim(self, user: str | None) -> None:
        if user and self._authenticator is not None and self._authenticator.lookup(user) is not None:
            self.claimed = prepared(user)

    def _bearer(self, mechanism: str) -> Callable[[bytes], SaslStep]:
        tokens = self._tokens
        assert tokens is not None

        def first(data: bytes) -> SaslStep:
            try:
                identity = identify(mechanism, data, tokens)
            except BearerError:
                if mechanism == "XOAUTH2":  # in AMQP the outcome is sufficient
                    return REFUSED
                self._respond = lambda _: REFUSED  # RFC 7628, 3.2.3: the client answers the error, then is refused
                return Challenge(FAILURE)
            return Outcome(OK, identity.user, groups=identity.groups, expires_at=identity.expires_at)

        return first

    def _scram(self, mechanism: str) -> Callable[[bytes], SaslStep]:
        from waymesh_amqp.scram import ScramError, ServerExchange

        authenticator = self._authenticator
        assert authenticator is not None
        exchange = ServerExchange(mechanism, lambda user: authenticator.scram_keys(user, mechanism), self._nonce())

        def first(data: bytes) -> SaslStep:
            try:
                challenge = exchange.first(data)
            except ScramError:
                return REFUSED
            self._claim(exchange.user)
            self._respond = final
            return Challenge(challenge)

        def final(data: bytes) -> SaslStep:
            try:
                signature = exchange.final(data)
            except ScramError:
                return REFUSED
            return Outcome(OK, exchange.user, signature)

        return first


class SaslClient:
    """The client side of one connection.

    `mechanisms`: the allowed ones (empty: all). `external`: the transport authenticates us, as by a client certificate.
    """

    def __init__(
        self,
        mechanisms: Sequence[str],
        username: str | None = None,
        password: str | None = None,
        external: bool = False,
        nonce: Callable[[], str] = _random_nonce,
        choose: Callable[[Sequence[str]], tuple[str, bytes] | None] | None = None,
    ) -> None:
        """`choose(offered)`: mechanism and initial response of a login that the caller has, None if none suits."""
        if "\0" in (username or "") or "\0" in (password or ""):
            raise ValueError("user name and password must not contain NUL")
        self._mechanisms = _known(mechanisms, MECHANISMS) or MECHANISMS
        self._username = username
        self._password = password
        self._external = external
        self._nonce = nonce
        self._choose = choose
        self._mechanism: str | None = None
        self._scram: ClientExchange | None = None
        self._proved = False
        self._verified = False

    def select(self, offered: Sequence[str]) -> tuple[str, bytes | None]:
        """Choose the best common mechanism; returns its name and the initial response.

        Raises AmqpError (unauthorized-access) if there is none.
        """
        chosen = None if self._choose is None else self._choose(offered)
        if chosen is not None:
            self._mechanism = chosen[0]
            return chosen
        for name in self._mechanisms if self._choose is None else ():
            if name in offered and self._possible(name):
                self._mechanism = name
                return name, self._initial_response(name)
        names = ", ".join(offered) or "nothing"
        raise AmqpError(UNAUTHORIZED_ACCESS, f"no common SASL mechanism: the peer offers {names}")

    def _possible(self, name: str) -> bool:
        if name == "EXTERNAL":
            return self._external
        return name == "ANONYMOUS" or bool(self._username and self._password)

    def _initial_response(self, name: str) -> bytes | None:
        if name == "ANONYMOUS":
            return ANONYMOUS_USER.encode()
        if name == "EXTERNAL":
            return b""
        user, password = self._username or "", self._password or ""
        if name == "PLAIN":
            return f"\0{user}\0{password}".encode()
        from waymesh_amqp.scram import ClientExchange, ScramError

        try:
            self._scram = ClientExchange(name, user, password, self._nonce())
            return self._scram.first()
        except ScramError as error:
            raise AmqpError(UNAUTHORIZED_ACCESS, f"{name}: {error}") from None

    def challenge(self, data: bytes) -> bytes:
        """Answer a sasl-challenge. Raises AmqpError if the mechanism expects none, or if the data is invalid."""
        from waymesh_amqp.scram import ScramError

        if self._mechanism in ("ANONYMOUS", "EXTERNAL") and not data:
            return b""
        if self._scram is None or self._verified:
            raise AmqpError(ILLEGAL_STATE, f"challenge not expected with {self._mechanism}")
        try:
            if self._proved:  # some servers send their signature as a challenge rather than with the outcome
                self._verify(self._scram, data)
                return b""
            self._proved = True
            return self._scram.final(data)
        except ScramError as error:
            raise AmqpError(UNAUTHORIZED_ACCESS, f"{self._mechanism}: {error}") from None

    def outcome(self, code: int, data: bytes | None = None) -> None:
        """Handle sasl-outcome. Raises AmqpError (unauthorized-access) for a refusal or a missing server signature."""
        if code != OK:
            name = _CODE_NAMES[code] if 0 <= code < len(_CODE_NAMES) else str(code)
            raise AmqpError(UNAUTHORIZED_ACCESS, f"{self._mechanism}: the peer refused us (sasl outcome {name})")
        if self._scram is not None and not self._verified:
            self._check_signature(self._scram, data)

    def _check_signature(self, exchange: ClientExchange, data: bytes | None) -> None:
        from waymesh_amqp.scram import ScramError

        if data is None or not self._proved:
            raise AmqpError(UNAUTHORIZED_ACCESS, f"{self._mechanism}: the server did not sign")
        try:
            self._verify(exchange, data)
        except ScramError as error:
            raise AmqpError(UNAUTHORIZED_ACCESS, f"{self._mechanism}: {error}") from None

    def _verify(self, exchange: ClientExchange, data: bytes) -> None:
        exchange.verify(data)
        self._verified = True
