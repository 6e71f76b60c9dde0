"""SASL by bearer token, server side: OAUTHBEARER (RFC 7628) and XOAUTH2. Who a token is for, a `TokenChecker` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

BEARER_MECHANISMS = ("OAUTHBEARER", "XOAUTH2")
MAX_TOKEN = 16384
"""Octets of a token; longer ones are refused."""
MAX_FRAME = MAX_TOKEN + 1024
"""Size of a SASL frame with such a token. Spec 5.3.1 has 512, which no signed token fits into."""
FAILURE = b'{"status":"invalid_token"}'
"""The challenge that tells a client of OAUTHBEARER that it is refused. RFC 7628, 3.2.2"""

_SEPARATOR = "\x01"
_SCHEME = "bearer "


class BearerError(Exception):
    """What the client sent is not what its mechanism asks for, or its token is not accepted."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a token is for. `expires_at`: the connection ends then, in seconds since 1970; inf for never."""

    user: str
    groups: tuple[str, ...]
    expires_at: float


class TokenChecker(Protocol):
    """Checks tokens."""

    def check(self, token: str) -> Identity | None:
        """The identity of a token; None if it is not accepted. May take long; called in a thread."""


def identify(mechanism: str, data: bytes, tokens: TokenChecker) -> Identity:
    """The identity of the token in an initial response. Raises BearerError. Nobody may act as somebody else."""
    if len(data) > MAX_FRAME:
        raise BearerError("too long")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BearerError("not UTF-8") from None
    user, pairs = _oauthbearer(text) if mechanism == "OAUTHBEARER" else _xoauth2(text)
    identity = tokens.check(_token(pairs))
    if identity is None or user not in ("", identity.user):
        raise BearerError("not accepted")
    return identity


def _oauthbearer(text: str) -> tuple[str, dict[str, str]]:
    """The identity to act as and the pairs of a client-resp. RFC 7628, 3.1"""
    header, separator, rest = text.partition(_SEPARATOR)
    binding, comma, authzid = header.partition(",")
    # "p=…" would bind the exchange to the TLS channel, which is not supported
    if not (separator and comma and binding in ("n", "y") and authzid.endswith(",")):
        raise BearerError("no GS2 header")
    authzid = authzid[:-1]
    if authzid and not authzid.startswith("a="):
        raise BearerError("no GS2 header")
    return _saslname(authzid[2:]), _pairs(rest)


def _xoauth2(text: str) -> tuple[str, dict[str, str]]:
    """The `user`, which may be missing, and the pairs."""
    pairs = _pairs(text)
    if not set(pairs) <= {"user", "auth"}:
        raise BearerError("unknown key")
    return pairs.get("user", ""), pairs


def _saslname(text: str) -> str:
    """A name as in RFC 5801, 4: `=2C` and `=3D` stand for comma and equals sign."""
    plain = text.replace("=2C", "").replace("=3D", "")
    if "=" in plain or "," in plain:
        raise BearerError("wrong name")
    return text.replace("=2C", ",").replace("=3D", "=")


def _pairs(text: str) -> dict[str, str]:
    """`key=value` pairs, each with a separator behind it, and one more at the end."""
    if not text.endswith(_SEPARATOR * 2):
        raise BearerError("no end")
    pairs: dict[str, str] = {}
    for pair in text[:-2].split(_SEPARATOR):
        key, equals, value = pair.partition("=")
        if not equals or not (key.isascii() and key.isalpha()) or key in pairs:
            raise BearerError("wrong pair")
        pairs[key] = value
    return pairs


def _token(pairs: dict[str, str]) -> str:
    value = pairs.get("auth", "")
    token = value[len(_SCHEME) :].strip(" ")
    if value[: len(_SCHEME)].lower() != _SCHEME or not token or len(token) > MAX_TOKEN or not token.isascii():
        raise BearerError("no token")
    return token
