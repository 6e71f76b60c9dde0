"""SASL with bearer tokens, server side: OAUTHBEARER (RFC 7628) and XOAUTH2. A `TokenChecker` validates the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

BEARER_MECHANISMS = ("OAUTHBEARER", "XOAUTH2")
MAX_TOKEN = 16384
"""Maximum size of a token in octets."""
MAX_FRAME = MAX_TOKEN + 1024
"""Maximum size of a SASL frame with a token. The 512 octets of Spec 5.3.1 are too few for a signed token."""
FAILURE = b'{"status":"invalid_token"}'
"""The challenge that reports a failed OAUTHBEARER authentication. RFC 7628, 3.2.2"""

_SEPARATOR = "\x01"
_SCHEME = "bearer "


class BearerError(Exception):
    """The initial response is malformed, or its token is not accepted."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity that a token proves. `expires_at`: end of the connection, in seconds since 1970; inf for never."""

    user: str
    groups: tuple[str, ...]
    expires_at: float


class TokenChecker(Protocol):
    """Checks tokens."""

    def check(self, token: str) -> Identity | None:
        """The identity of a token; None if it is not accepted. May block: it is called in a thread."""


def identify(mechanism: str, data: bytes, tokens: TokenChecker) -> Identity:
    """The identity of the token in an initial response. Raises BearerError, also for a different authzid."""
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
    """The authzid and the key/value pairs of a client-resp. RFC 7628, 3.1"""
    header, separator, rest = text.partition(_SEPARATOR)
    binding, comma, authzid = header.partition(",")
    # "p=…" requests channel binding, which is not supported
    if not (separator and comma and binding in ("n", "y") and authzid.endswith(",")):
        raise BearerError("no GS2 header")
    authzid = authzid[:-1]
    if authzid and not authzid.startswith("a="):
        raise BearerError("no GS2 header")
    return _saslname(authzid[2:]), _pairs(rest)


def _xoauth2(text: str) -> tuple[str, dict[str, str]]:
    """The `user`, which is optional, and the key/value pairs."""
    pairs = _pairs(text)
    if not set(pairs) <= {"user", "auth"}:
        raise BearerError("unknown key")
    return pairs.get("user", ""), pairs


def _saslname(text: str) -> str:
    """Decode a saslname of RFC 5801, 4: `=2C` is a comma, `=3D` an equals sign."""
    plain = text.replace("=2C", "").replace("=3D", "")
    if "=" in plain or "," in plain:
        raise BearerError("wrong name")
    return text.replace("=2C", ",").replace("=3D", "=")


def _pairs(text: str) -> dict[str, str]:
    """Parse `key=value` pairs: each ends with a separator, the list with one more."""
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
