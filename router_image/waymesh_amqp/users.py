"""User files: one credential a line, for SASL PLAIN and SCRAM.

```
# comments and empty lines are skipped
alice:{plain}the password, to the end of the line
bob:{SCRAM-SHA-256}4096,<salt>,<stored key>,<server key>
```
Salt and keys are base64. A user may have one line for each scheme. `{plain}` serves every mechanism; stored keys serve
their own SCRAM mechanism and PLAIN, and do not give the password away. Clients take the strongest mechanism offered, so
give users with stored keys a line for each SCRAM mechanism that the listener offers. `make_line` makes such a line.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections import Counter
from collections.abc import Mapping

from waymesh_amqp.credentials import (
    DEFAULT_ITERATIONS,
    DEFAULT_SALT_SIZE,
    SCRAM_MECHANISMS,
    Authenticator,
    Credential,
    ScramKeys,
    prepared,
)

PLAIN_SCHEME = "plain"
MIN_SALT_SIZE = 12


class UserFileError(ValueError):
    """A line that cannot be read; `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


class UserFile(Authenticator):
    """The users of one file. Its text keys the answers to unknown users, so they are the same in every process."""

    def __init__(self, users: Mapping[str, Credential], secret: bytes | None = None) -> None:
        super().__init__(secret)
        self._users = dict(users)
        self._has_plain = any(credential.password is not None for credential in users.values())
        counts = Counter(mechanism for credential in users.values() for mechanism in credential.keys)
        self._most = counts.most_common(1)[0][0] if counts else None
        self._shapes = {mechanism: self._shape_of_most(mechanism) for mechanism in counts}

    @classmethod
    def parse(cls, text: str) -> UserFile:
        """Read a user file. Raises UserFileError with the line's number."""
        users: dict[str, Credential] = {}
        try:
            octets = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserFileError(text.count("\n", 0, error.start) + 1, "not valid Unicode") from None
        for number, line in enumerate(text.splitlines(), 1):
            entry = line.lstrip()
            if entry and not entry.startswith("#"):
                user, scheme, rest = _split(entry, number)
                users[user] = _merged(users.get(user, Credential()), scheme, rest, number)
        return cls(users, hmac.digest(octets, b"waymesh user file", "sha256"))

    def lookup(self, user: str) -> Credential | None:
        """Return the user's credential, None if the file has no such user."""
        return self._users.get(prepared(user))

    def serves(self, mechanism: str) -> bool:
        """Whether the file has a plain password, or keys of this SCRAM mechanism."""
        return self._has_plain or mechanism in self._shapes

    def shape(self, mechanism: str) -> tuple[int, int]:
        """Iterations and salt size of most users with keys of this mechanism."""
        return self._shapes.get(mechanism) or super().shape(mechanism)

    def stores(self) -> tuple[bool, str | None]:
        """Whether any user has a plain password, and the mechanism of most stored keys."""
        return self._has_plain, self._most

    def _shape_of_most(self, mechanism: str) -> tuple[int, int]:
        shapes = Counter(
            (keys.iterations, len(keys.salt))
            for credential in self._users.values()
            for name, keys in credential.keys.items()
            if name == mechanism
        )
        return shapes.most_common(1)[0][0]


def make_line(
    user: str,
    password: str,
    scheme: str = "SCRAM-SHA-256",
    iterations: int = DEFAULT_ITERATIONS,
    salt: bytes | None = None,
) -> str:
    """Make a line of a user file, without a line end; a random salt is made if none is given.

    Raises ValueError for a name, password or scheme that a user file cannot hold.
    """
    _check_name(user)
    if scheme == PLAIN_SCHEME:
        if password.splitlines() != [password] or "\0" in password:
            raise ValueError("a plain password is not empty and has neither line ends nor NULs")
        return f"{user}:{{plain}}{password}"
    if scheme not in SCRAM_MECHANISMS:
        raise ValueError(f"unknown scheme {scheme!r}")
    from waymesh_amqp.scram import ScramError, derive

    try:
        keys = derive(scheme, password, iterations, os.urandom(DEFAULT_SALT_SIZE) if salt is None else salt)
    except ScramError as error:
        raise ValueError(str(error)) from None
    parts = (base64.b64encode(part).decode() for part in (keys.salt, keys.stored_key, keys.server_key))
    return f"{user}:{{{scheme}}}{keys.iterations},{','.join(parts)}"


def _check_name(user: str) -> None:
    if user.splitlines() != [user] or user != user.strip() or user.startswith("#") or ":" in user or "\0" in user:
        raise ValueError(f"{user!r} cannot be a user name: it is empty, or has ':', a NUL, a line end or outer blanks")


def _split(entry: str, number: int) -> tuple[str, str, str]:
    """Split a line into user (normalised), scheme and what follows."""
    user, colon, secret = entry.partition(":")
    scheme, brace, rest = secret.removeprefix("{").partition("}")
    if not colon or not secret.startswith("{") or not brace:
        raise UserFileError(number, "expected name:{scheme}secret")
    try:
        _check_name(user)
    except ValueError as error:
        raise UserFileError(number, str(error)) from None
    return prepared(user), scheme, rest


def _merged(known: Credential, scheme: str, rest: str, number: int) -> Credential:
    """Add one line to what earlier lines said about the user."""
    if scheme == PLAIN_SCHEME:
        if not rest or "\0" in rest:
            raise UserFileError(number, "the password is empty or has a NUL")
        if known.password is not None:
            raise UserFileError(number, "the user has a plain password already")
        return Credential(rest, known.keys)
    if scheme not in SCRAM_MECHANISMS:
        raise UserFileError(
            number, f"unknown scheme {scheme!r}, expected plain or one of {', '.join(SCRAM_MECHANISMS)}"
        )
    if scheme in known.keys:
        raise UserFileError(number, f"the user has keys of {scheme} already")
    return Credential(known.password, {**known.keys, scheme: _keys(scheme, rest, number)})


def _keys(scheme: str, rest: str, number: int) -> ScramKeys:
    parts = rest.strip().split(",")
    if len(parts) != 4:
        raise UserFileError(number, "expected iterations,salt,stored key,server key")
    if not (parts[0].isascii() and parts[0].isdigit() and DEFAULT_ITERATIONS <= int(parts[0]) <= 10_000_000):
        raise UserFileError(number, f"iterations must be a number from {DEFAULT_ITERATIONS} to 10000000")
    try:
        salt, stored, server = (base64.b64decode(part, validate=True) for part in parts[1:])
    except binascii.Error:
        raise UserFileError(number, "salt and keys must be base64") from None
    if len(salt) < MIN_SALT_SIZE:
        raise UserFileError(number, f"the salt must have at least {MIN_SALT_SIZE} bytes")
    if {len(stored), len(server)} != {SCRAM_MECHANISMS[scheme]}:
        raise UserFileError(number, f"keys of {scheme} have {SCRAM_MECHANISMS[scheme]} bytes")
    return ScramKeys(int(parts[0]), salt, stored, server)
