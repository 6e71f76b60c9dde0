"""Files with users, passwords and keys for routers, from the Secrets that resources name. The users file holds keys,
never passwords."""

from __future__ import annotations

import functools
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from waymesh_amqp.credentials import DEFAULT_ITERATIONS, DEFAULT_SALT_SIZE, Credential, prepared
from waymesh_amqp.users import UserFile, make_line
from waymesh_operator.resources.dependents import Broker
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router_link import RouterLink

from .names import USERS_NAME, credential_file, link_file, listener_file

SecretData = Mapping[str, bytes]
Secrets = Mapping[str, SecretData | None]
"""Data of Secrets by name; None for a Secret that does not exist."""


def broker_files(broker: Broker, auth: SecretData, authorities: SecretData) -> dict[str, bytes]:
    """The files that a Broker's connector refers to, from the Secrets that the Broker names."""
    found = {}
    wanted = {"EXTERNAL": ("tls.crt", "tls.key")}.get(broker.mechanism, ("password",))
    for part in wanted:
        if part in auth:
            found[credential_file(broker.ref, part)] = auth[part]
    if "ca.crt" in authorities:
        found[credential_file(broker.ref, "ca.crt")] = authorities["ca.crt"]
    return found


LINK_PARTS = ("ca.crt", "tls.crt", "tls.key")
"""Keys of the Secret of a RouterLink that routers read as files."""


def link_files(link: RouterLink, secret: SecretData) -> dict[str, bytes]:
    """The files that a RouterLink's connector refers to."""
    return {link_file(link.ref, part): secret[part] for part in LINK_PARTS if link.secret}


def listener_keys(listener: Listener) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The Secrets that a listener names for TLS, each with the keys that it must have."""
    if listener.certificate:
        yield listener.certificate, ("tls.crt", "tls.key")
    if listener.authorities:
        yield listener.authorities, ("ca.crt", "ca.crl") if listener.revocation else ("ca.crt",)


def listener_files(listener: Listener, secrets: Secrets) -> dict[str, bytes]:
    """Return the files that a listener's sslProfile refers to, from Secrets that have all of them."""
    return {
        listener_file(listener.name, key): (secrets[name] or {})[key]
        for name, keys in listener_keys(listener)
        for key in keys
    }


USERS_FILE = f"{USERS_NAME}.users"
DERIVED = ("SCRAM-SHA-512", "SCRAM-SHA-256")
"""Mechanisms that listeners with `auth: scram` offer. PLAIN is checked against the first. There are no keys for
SCRAM-SHA-1, which is not offered: they would only make guessing passwords easier."""
STORED_KEYS = "{SCRAM-"
"""Prefix of stored keys; any other value is a password."""


ENTROPY_BYTES = 32


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """The source of salts: `file` is the present users file, whose keys are kept as long as they match the password;
    `entropy` (32 unpredictable bytes) is the seed of all other salts."""

    file: bytes
    entropy: bytes


@dataclass(frozen=True, slots=True)
class _Login:
    """The Secret's entry of one user: a password, or lines of stored keys."""

    password: str = ""
    lines: tuple[str, ...] = ()


def users_file(users: Mapping[str, bytes], kept: KeptKeys) -> dict[str, bytes]:
    """Generate the users file of a Secret (user → password or stored keys), without users who cannot log in.

    Routers read it with the same parser, so they accept every line of it.
    """
    now = UserFile.parse(kept.file.decode("utf-8", "surrogateescape"))
    lines: list[str] = []
    for user, login in _logins(users)[0].items():
        known = now.lookup(user) or Credential()
        lines += login.lines or (_kept_or_new(user, login.password, name, known, kept.entropy) for name in DERIVED)
    return {USERS_FILE: "".join(f"{line}\n" for line in lines).encode()}


def unusable_users(users: Mapping[str, bytes]) -> dict[str, str]:
    """Return the users of a Secret who cannot log in, and why. The reasons do not reveal passwords or keys."""
    return _logins(users)[1]


def _logins(users: Mapping[str, bytes]) -> tuple[dict[str, _Login], dict[str, str]]:
    logins: dict[str, _Login] = {}
    bad: dict[str, str] = {}
    names: set[str] = set()
    for user in sorted(users):
        try:
            login = _login(user, users[user])
        except ValueError as error:
            bad[user] = str(error)
            continue
        if prepared(user) in names:
            bad[user] = "the same name as another one in the Secret after normalisation"
            continue
        names.add(prepared(user))
        logins[user] = login
    return logins, bad


def _login(user: str, value: bytes) -> _Login:
    """Raises ValueError if the value is neither a usable password nor usable stored keys."""
    try:
        text = value.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    # `waymesh user` prints whole lines of a users file: the name comes before the keys.
    stored = [line.removeprefix(f"{user}:") for line in text.splitlines() if line.strip()]
    if stored and stored[0].startswith(STORED_KEYS):
        if not all(line.startswith(STORED_KEYS) for line in stored):
            raise ValueError("stored keys, and a line that has none")
        lines = tuple(f"{user}:{line}" for line in stored)
        _check(user, lines)
        return _Login(lines=lines)
    if text.splitlines() != [text] or "\0" in text:
        raise ValueError("not a single line of text")
    _check(user, (f"{user}:{{plain}}{text}",))
    if not _is_usable(text):
        raise ValueError("the password has characters that SASL does not allow")
    return _Login(text)


def _check(user: str, lines: tuple[str, ...]) -> None:
    """Raises ValueError for lines with which a router would refuse the user."""
    parsed = UserFile.parse("\n".join(lines))
    for problem in parsed.problems:
        raise ValueError(problem.reason)
    if parsed.lookup(user) is None:
        raise ValueError("not a valid user name: it begins with # or a blank, ends with a blank, or contains a colon")


def _kept_or_new(user: str, password: str, mechanism: str, known: Credential, entropy: bytes) -> str:
    """Return the line of the users file with the keys of a password: the present line if it matches the password."""
    keys = known.keys.get(mechanism)
    if keys is not None and (keys.iterations, len(keys.salt)) == (DEFAULT_ITERATIONS, DEFAULT_SALT_SIZE):
        line = _line(user, password, mechanism, keys.salt)
        if UserFile.parse(line).lookup(user) == Credential(keys={mechanism: keys}):
            return line
    # A different salt for each password: an old file does not reveal that a password is used again.
    salt = hmac.digest(entropy, f"{mechanism} {prepared(user)}".encode(), "sha256")[:DEFAULT_SALT_SIZE]
    return _line(user, password, mechanism, salt)


@functools.lru_cache(maxsize=32768)
def _line(user: str, password: str, mechanism: str, salt: bytes) -> str:
    """Return a line of the users file. Cached, because it takes milliseconds and every reconcile needs all lines. The
    process keeps the Secret with the password in memory anyway."""
    return make_line(user, password, mechanism, DEFAULT_ITERATIONS, salt)


@functools.lru_cache(maxsize=32768)
def _is_usable(password: str) -> bool:
    """Whether SASLprep (RFC 4013) allows the password: else no client can derive its keys."""
    try:
        make_line("user", password, DERIVED[-1], DEFAULT_ITERATIONS, bytes(DEFAULT_SALT_SIZE))
    except ValueError:
        return False
    return True
