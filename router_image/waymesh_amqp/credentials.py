"""Users' credentials, and checks of them that do not reveal which users exist."""

from __future__ import annotations

import hmac
import os
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SCRAM_MECHANISMS: Mapping[str, int] = {"SCRAM-SHA-512": 64, "SCRAM-SHA-256": 32, "SCRAM-SHA-1": 20}
"""Mechanisms, strongest first, with the size of their keys in bytes."""

DEFAULT_ITERATIONS = 4096  # the minimum of RFC 5802, 5.1 and RFC 7677, 4
DEFAULT_SALT_SIZE = 16
MAX_ITERATIONS = 1_000_000
"""Maximum in stored keys and in servers' challenges: one computation takes about 0.5 s of CPU time."""


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """The keys that a server stores for one SCRAM mechanism. RFC 5802, 3"""

    iterations: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credential:
    """A user's plain password, or SCRAM keys by mechanism name, or both."""

    password: str | None = field(default=None, repr=False)
    keys: Mapping[str, ScramKeys] = field(default_factory=dict)


def prepared(text: str) -> str:
    """Normalise a name or password as SASLprep does, so that texts that look the same are equal."""
    return unicodedata.normalize("NFKC", text)


class Authenticator(ABC):
    """Looks up users and checks their credentials.

    Unknown users get the same answers as wrong passwords: same messages, a stable salt of the same size, the same work.
    Their salts and keys are derived from `secret`; use the same value in all processes that serve the same users.
    """

    problems: Sequence[Exception] = ()
    """Errors in stored credentials; their users count as unknown."""

    def __init__(self, secret: bytes | None = None) -> None:
        self.secret = os.urandom(32) if secret is None else secret

    @abstractmethod
    def lookup(self, user: str) -> Credential | None:
        """The user's credential, None for an unknown user."""

    def serves(self, mechanism: str) -> bool:
        """Whether any user can log in with this SCRAM mechanism. If not, it is not offered: clients would select it."""
        return True

    def key_parameters(self, mechanism: str) -> tuple[int, int]:
        """Iterations and salt size to send for users without stored keys: those of most users with stored keys."""
        return DEFAULT_ITERATIONS, DEFAULT_SALT_SIZE

    def stores(self) -> tuple[bool, str | None]:
        """Whether any user has a plain password, and the mechanism of most stored keys (None: no keys)."""
        return True, None

    def hashes(self, mechanism: str) -> bool:
        """Whether a check with this mechanism computes PBKDF2, which takes from milliseconds to half a second."""
        plain, mechanism_of_most = self.stores()
        return mechanism_of_most is not None if mechanism == "PLAIN" else mechanism in SCRAM_MECHANISMS and plain

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Compute keys in advance, where possible. Call it in a thread: PBKDF2 is slow."""

    def verify_plain(self, user: str, password: str) -> bool:
        """Check a password against the user's plain password; without one, against the strongest stored keys."""
        credential = self.lookup(user)
        known, keys = self._stored(credential, user)
        if credential is not None and credential.password is not None:
            known = credential.password
        same_text = hmac.compare_digest(prepared(known).encode(), prepared(password).encode())
        same_keys = keys is not None and self._same_keys(keys, password)
        if credential is None:
            return False
        return same_text if credential.password is not None else same_keys

    def derived(self, user: str, mechanism: str) -> ScramKeys | None:
        """The keys of the user's plain password, if `prepare` has derived them."""
        return None

    def scram_keys(self, user: str, mechanism: str) -> ScramKeys:
        """The keys to check the user's proof against; for an unknown user, keys that no proof matches."""
        credential = self.lookup(user)
        password = None if credential is None else credential.password
        made = self.derived(user, mechanism) or self._made(user, mechanism, password, derived=self.hashes(mechanism))
        stored = None if credential is None else credential.keys.get(mechanism)
        return made if stored is None else stored

    def _stored(self, credential: Credential | None, user: str) -> tuple[str, tuple[str, ScramKeys] | None]:
        """Keys to check a password against, also for users without keys."""
        noise = self._pseudorandom(f"password {user}", 32).hex()
        if credential is not None:
            for mechanism in SCRAM_MECHANISMS:
                if mechanism in credential.keys:
                    return noise, (mechanism, credential.keys[mechanism])
        _, mechanism_of_most = self.stores()
        if mechanism_of_most is None:
            return noise, None
        return noise, (mechanism_of_most, self._made(user, mechanism_of_most, None, derived=False))

    def _same_keys(self, keys: tuple[str, ScramKeys], password: str) -> bool:
        from waymesh_amqp.scram import ScramError, derive

        mechanism, stored = keys
        try:
            derived = derive(mechanism, password, stored.iterations, stored.salt)
        except ScramError:
            return False
        return hmac.compare_digest(derived.stored_key, stored.stored_key)

    def _made(self, user: str, mechanism: str, password: str | None, derived: bool) -> ScramKeys:
        """Keys for a user without stored keys: of the password, or pseudorandom. `derived`: by PBKDF2, at its cost."""
        iterations, salt_size = self.key_parameters(mechanism)
        salt = self._pseudorandom(f"{mechanism} salt {prepared(user)}", salt_size)
        size = SCRAM_MECHANISMS[mechanism]
        noise = self._pseudorandom(f"{mechanism} keys {prepared(user)}", 2 * size)
        if derived:
            from waymesh_amqp.scram import ScramError, derive

            try:
                keys = derive(mechanism, noise.hex() if password is None else password, iterations, salt)
            except ScramError:
                password = None  # SASLprep prohibits it, so no client can send it
            if password is not None:
                return keys
        return ScramKeys(iterations, salt, noise[:size], noise[size:])

    def _pseudorandom(self, label: str, size: int) -> bytes:
        """Pseudorandom bytes, keyed with the secret."""
        parts = b"".join(
            hmac.digest(self.secret, f"{index} {label}".encode(), "sha512") for index in range(-(-size // 64))
        )
        return parts[:size]
