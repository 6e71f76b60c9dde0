"""User files: one credential per line, for SASL PLAIN and SCRAM.

```
# comments and empty lines are skipped
alice:{plain}the password, to the end of the line
bob:{SCRAM-SHA-256}4096,<salt>,<stored key>,<server key>
```
Salt and keys are base64. A user may have one line for each scheme. `{plain}` works with every mechanism. Stored keys
work with their own SCRAM mechanism and PLAIN, and do not reveal the password. Clients choose the strongest offered
mechanism, so users with stored keys need a line for each SCRAM mechanism that the listener offers. `make_line` returns
such a line.

An invalid line disables its user, with all lines of that user, but no other users.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections import Counter
from collections.abc import Mapping, Sequence

from waymesh_amqp.credentials import (
    DEFAULT_ITERATIONS,
    DEFAULT_SALT_SIZE,
    MAX_ITERATIONS,
    SCRAM_MECHANISMS,
    Authenticator,
    Credential,
    ScramKeys,
    prepared,
)

PLAIN_SCHEME = "plain"
MIN_SALT_SIZE = 12
REMEMBERED = 4096
"""Number of successful PLAIN logins to cache, as keyed digests."""
_ITERATIONS = f"iterations must be a number from {DEFAULT_ITERATIONS} to {MAX_ITERATIONS}"


class UserFileError(ValueError):
    """An invalid line; `line` counts from 1, `user` is empty if the line has no user.

    `reason` and the text contain no passwords or keys.
    """

    def __init__(self, line: int, reason: str, user: str = "") -> None:
        super().__init__(f"line {line}: user {user}: {reason}" if user else f"line {line}: {reason}")
        self.line = line
        self.reason = reason
        self.user = user


class UserFile(Authenticator):
    """The users of one file. Answers to unknown users are keyed with its text, so they are the same in every process.

    `problems`: the invalid lines; their users are unknown here.
    """

    def __init__(
        self, users: Mapping[str, Credential], secret: bytes | None = None, problems: Sequence[UserFileError] = ()
    ) -> None:
        super().__init__(secret)
        self._derived: Mapping[tuple[str, str], ScramKeys] | None = None
        self._logged_in: set[bytes] = set()
        self.problems: tuple[UserFileError, ...] = tuple(problems)
        self._users = dict(users)
        self._has_plain = any(credential.password is not None for credential in users.values())
        counts = Counter(mechanism for credential in users.values() for mechanism in credential.keys)
        self._most = counts.most_common(1)[0][0] if counts else None
        self._key_parameters = {mechanism: self._shape_of_most(mechanism) for mechanism in counts}

    @classmethod
    def parse(cls, text: str) -> UserFile:
        """Parse the text of a user file. Invalid UTF-8 must be decoded to lone surrogates (`surrogateescape`)."""
        users: dict[str, Credential] = {}
        problems: list[UserFileError] = []
        for number, line in enumerate(text.splitlines(), 1):
            entry = line.lstrip()
            if entry and not entry.startswith("#"):
                try:
                    user, scheme, rest = _split(entry, number)
                    users[user] = _merged(users.get(user, Credential()), scheme, rest, number, user)
                except UserFileError as error:
                    problems.append(error)
        for problem in problems:
            users.pop(problem.user, None)
        octets = text.encode("utf-8", "surrogatepass")
        return cls(users, hmac.digest(octets, b"waymesh user file", "sha256"), problems)

    def lookup(self, user: str) -> Credential | None:
        """The user's credential, None if the file has no such user."""
        return self._users.get(prepared(user))

    def serves(self, mechanism: str) -> bool:
        """Whether the file has a plain password, or keys of this SCRAM mechanism."""
        return self._has_plain or mechanism in self._key_parameters

    def prepare(self) -> None:
        """Derive the keys of all plain passwords, so that SCRAM exchanges need no PBKDF2.

        It takes milliseconds for each user and mechanism, so run it in a thread; exchanges may run at the same time.
        """
        self._derived = {
            (user, mechanism): self._made(user, mechanism, credential.password, derived=True)
            for user, credential in self._users.items()
            if credential.password is not None
            for mechanism in SCRAM_MECHANISMS
        }

    def hashes(self, mechanism: str) -> bool:
        """Whether a check computes PBKDF2: for SCRAM only until the keys are prepared."""
        return super().hashes(mechanism) and (mechanism == "PLAIN" or self._derived is None)

    def derived(self, user: str, mechanism: str) -> ScramKeys | None:
        """The keys that `prepare` derived for the user."""
        return None if self._derived is None else self._derived.get((prepared(user), mechanism))

    def verify_plain(self, user: str, password: str) -> bool:
        """Check a password, without PBKDF2 if the same one succeeded before.

        Failed passwords are not cached, so response times give no help in guessing.
        """
        mark = hmac.digest(self.secret, f"{prepared(user)}\0{prepared(password)}".encode(), "sha256")
        if mark in self._logged_in:
            return True
        good = super().verify_plain(user, password)
        if good:
            if len(self._logged_in) >= REMEMBERED:
                self._logged_in.clear()
            self._logged_in.add(mark)
        return good

    def key_parameters(self, mechanism: str) -> tuple[int, int]:
        """Iterations and salt size of most users with keys of this mechanism."""
        return self._key_parameters.get(mechanism) or super().key_parameters(mechanism)

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
    """Make a line of a user file, without a line end; the default salt is random.

    Raises ValueError for a name, password or scheme that a user file cannot contain.
    """
    _check_name(user)
    if scheme == PLAIN_SCHEME:
        if password.splitlines() != [password] or "\0" in password:
            raise ValueError("a plain password must not be empty or contain line ends or NUL")
        return f"{user}:{{plain}}{password}"
    if scheme not in SCRAM_MECHANISMS:
        raise ValueError(f"unknown scheme {scheme!r}")
    if iterations > MAX_ITERATIONS:
        raise ValueError(_ITERATIONS)
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
    if not colon:
        raise UserFileError(number, "expected name:{scheme}secret")
    try:
        _check_name(user)
        user.encode("utf-8")
    except UnicodeEncodeError:
        raise UserFileError(number, "the name is not valid Unicode") from None
    except ValueError as error:
        raise UserFileError(number, str(error)) from None
    scheme, brace, rest = secret.removeprefix("{").partition("}")
    if not secret.startswith("{") or not brace:
        raise UserFileError(number, "expected name:{scheme}secret", prepared(user))
    return prepared(user), scheme, rest


def _merged(known: Credential, scheme: str, rest: str, number: int, user: str) -> Credential:
    """Merge a line into the user's credential from earlier lines."""
    try:
        rest.encode("utf-8")
    except UnicodeEncodeError:
        raise UserFileError(number, "not valid Unicode", user) from None
    if scheme == PLAIN_SCHEME:
        if not rest or "\0" in rest:
            raise UserFileError(number, "the password is empty or has a NUL", user)
        if known.password is not None:
            raise UserFileError(number, "the user has a plain password already", user)
        return Credential(rest, known.keys)
    if scheme not in SCRAM_MECHANISMS:
        expected = f"expected plain or one of {', '.join(SCRAM_MECHANISMS)}"
        raise UserFileError(number, f"unknown scheme, {expected}", user)
    if scheme in known.keys:
        raise UserFileError(number, f"the user has keys of {scheme} already", user)
    try:
        keys = _keys(scheme, rest)
    except ValueError as error:
        raise UserFileError(number, str(error), user) from None
    return Credential(known.password, {**known.keys, scheme: keys})


def _keys(scheme: str, rest: str) -> ScramKeys:
    """Parse the keys in a line. Raises ValueError."""
    parts = rest.strip().split(",")
    if len(parts) != 4:
        raise ValueError("expected iterations,salt,stored key,server key")
    digits = parts[0]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise ValueError(_ITERATIONS)
    if not DEFAULT_ITERATIONS <= int(digits) <= MAX_ITERATIONS:
        raise ValueError(_ITERATIONS)
    try:
        salt, stored, server = (base64.b64decode(part, validate=True) for part in parts[1:])
    except binascii.Error:
        raise ValueError("salt and keys must be base64") from None
    if len(salt) < MIN_SALT_SIZE:
        raise ValueError(f"the salt must have at least {MIN_SALT_SIZE} bytes")
    if {len(stored), len(server)} != {SCRAM_MECHANISMS[scheme]}:
        raise ValueError(f"keys of {scheme} have {SCRAM_MECHANISMS[scheme]} bytes")
    return ScramKeys(int(digits), salt, stored, server)
