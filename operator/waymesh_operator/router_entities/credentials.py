"""Files with users, passwords and keys that routers read, made from the Secrets that resources name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waymesh_amqp.credentials import prepared
from waymesh_amqp.users import UserFile
from waymesh_operator.resources.dependents import Broker
from waymesh_operator.resources.router import Listener

from .names import USERS_NAME, credential_file, listener_file

SecretData = Mapping[str, bytes]
STORED_KEYS = "{SCRAM-"
"""Prefix of stored SCRAM keys; any other value is a password."""


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


def listener_keys(listener: Listener) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The Secrets that a listener names for TLS, each with the keys that it must have."""
    if listener.certificate:
        yield listener.certificate, ("tls.crt", "tls.key")
    if listener.authorities:
        yield listener.authorities, ("ca.crt", "ca.crl") if listener.revocation else ("ca.crt",)


def listener_files(listener: Listener, secrets: Mapping[str, SecretData | None]) -> dict[str, bytes]:
    """The files that a listener's sslProfile refers to, from Secrets that have all of them."""
    return {
        listener_file(listener.name, key): (secrets[name] or {})[key]
        for name, keys in listener_keys(listener)
        for key in keys
    }


def users_file(users: SecretData) -> tuple[dict[str, bytes], dict[str, str]]:
    """The user file of a Secret (user → password or stored keys), and by user why some are not in it.

    Routers read the file with the same parser, so they accept every line of it.
    """
    lines: dict[str, str] = {}
    bad: dict[str, str] = {}
    for user in sorted(users):
        try:
            line = _user_line(user, users[user])
        except ValueError as error:
            bad[user] = str(error)
        else:
            if lines.setdefault(prepared(user), line) is not line:
                bad[user] = "the same name as another one in the Secret after normalisation"
    return {f"{USERS_NAME}.users": "".join(f"{line}\n" for line in lines.values()).encode()}, bad


def _user_line(user: str, value: bytes) -> str:
    """A line of the user file. Raises ValueError if the value is neither a usable password nor usable stored keys."""
    try:
        text = value.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    if text.splitlines() != [text] or "\0" in text:
        raise ValueError("not a single line of text")
    line = f"{user}:{text}" if text.startswith(STORED_KEYS) else f"{user}:{{plain}}{text}"
    parsed = UserFile.parse(line)
    for problem in parsed.problems:
        raise ValueError(problem.reason)
    if parsed.lookup(user) is None:
        raise ValueError("not a valid user name: it begins with # or a blank, ends with a blank, or contains a colon")
    return line
