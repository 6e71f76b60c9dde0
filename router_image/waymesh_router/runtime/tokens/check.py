"""Checks bearer tokens: JWTs (RFC 7519) with a signature, an audience, an issuer, times and a user."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jwt

from waymesh_amqp.bearer import MAX_TOKEN, Identity
from waymesh_router.runtime.tokens.keys import Key

MAX_NAME = 255
"""Maximum length of the name of a user or group."""
_OPTIONS: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["aud", "iss"]}
"""Times are checked by `TokenCheck`, with the clock that it is given."""


class TokenRefused(Exception):
    """The reason to refuse a token; never contains text of the token."""


class Finder(Protocol):
    """Finds the keys that may have signed a token."""

    def find(self, kid: str | None, algorithm: str) -> list[Key]:
        """The keys that may have signed a token."""


class TokenCheck:
    """The checks of one `tokenProfile`."""

    def __init__(
        self, attrs: Mapping[str, Any], keys: Finder, now: Callable[[], float], refused: Callable[[str], None]
    ) -> None:
        """`now()`: seconds since 1970; `refused(reason)` is called for each refused token."""
        self._attrs = attrs
        self._algorithms = str(attrs["algorithms"]).split()
        self._skew_s = float(attrs["clockSkewSeconds"])
        self._keys = keys
        self._now = now
        self._refused = refused

    def check(self, token: str) -> Identity | None:
        """The identity of a token; None if it is refused."""
        try:
            claims = self._claims(token)
            expires_at = self._expires_at(claims)
            return Identity(self._user(claims), self._groups(claims), expires_at)
        except TokenRefused as reason:
            self._refused(str(reason))
            return None

    def _claims(self, token: str) -> dict[str, Any]:
        """The claims of a token after checking its signature, issuer and audience."""
        if len(token) > MAX_TOKEN:
            raise TokenRefused("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            if algorithm not in self._algorithms:
                raise TokenRefused("its signature algorithm is not allowed")
            if header.get("crit") is not None or header.get("b64") is not None:
                raise TokenRefused("its header has critical extensions")
            return self._verified(token, algorithm, kid)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenRefused(_REASONS.get(type(error), "it is not a signed token")) from None

    def _verified(self, token: str, algorithm: str, kid: str | None) -> dict[str, Any]:
        found = self._keys.find(kid, algorithm)
        if not found:
            raise TokenRefused("there is no key for it")
        for key in found:
            try:
                return jwt.decode(
                    token,
                    key.public,
                    algorithms=[algorithm],
                    audience=self._attrs["audience"],
                    issuer=self._attrs["issuer"],
                    options=_OPTIONS,
                )
            except jwt.InvalidSignatureError:
                continue
        raise TokenRefused("its signature is wrong")

    def _expires_at(self, claims: Mapping[str, Any]) -> float:
        now = self._now()
        for name in ("nbf", "iat"):
            if name in claims and _seconds(claims, name) - self._skew_s > now:
                raise TokenRefused("it is not valid yet")
        if "exp" not in claims:
            if self._attrs["allowNoExpiry"]:
                return math.inf
            raise TokenRefused("it has no expiry")
        expires_at = _seconds(claims, "exp") + self._skew_s
        if expires_at <= now:
            raise TokenRefused("it has expired")
        return expires_at

    def _user(self, claims: Mapping[str, Any]) -> str:
        user = claims.get(self._attrs["userClaim"])
        if not _is_name(user):
            raise TokenRefused("its user claim is not a name")
        return str(user)

    def _groups(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        claim = self._attrs.get("groupsClaim")
        groups = claims.get(claim, []) if claim else []
        listed = [groups] if isinstance(groups, str) else groups
        if not isinstance(listed, list) or not all(map(_is_name, listed)):
            raise TokenRefused("its groups claim is not a list of names")
        return tuple(listed)


_REASONS: Mapping[type[Exception], str] = {
    jwt.InvalidAudienceError: "it is for another audience",
    jwt.InvalidIssuerError: "it comes from another issuer",
    jwt.MissingRequiredClaimError: "it has no audience or no issuer",
}


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53:  # also refuses NaN
        return float(value)
    raise TokenRefused(f"its claim {name} is not a time")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable()
