"""`waymesh user`: lines of users files, with keys instead of passwords."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from waymesh_amqp.credentials import SCRAM_MECHANISMS, prepared
from waymesh_amqp.users import make_line
from waymesh_operator.errors import WaymeshError

DEFAULT_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
MODE = 0o600
"""Of a new users file: whoever reads stored keys can try passwords, or stand in for the router."""


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user with a password that is about to be read."""

    name: str
    mechanisms: Sequence[str]
    iterations: int


def mechanisms(asked: Sequence[str] | None) -> Sequence[str]:
    """The mechanisms asked for. Raises WaymeshError for one that has no keys."""
    for name in asked or ():
        if name not in SCRAM_MECHANISMS:
            raise WaymeshError(f"--mechanism {name}: possible are {', '.join(SCRAM_MECHANISMS)}")
    return asked or DEFAULT_MECHANISMS


def run_hash(user: NewUser) -> int:
    """Print the user's lines. Raises WaymeshError."""
    for line in _lines(user):
        print(line)
    return 0


def run_add(user: NewUser, file: Path) -> int:
    """Put the user's lines into the file, in place of earlier ones. Raises WaymeshError."""
    lines = _lines(user)
    try:
        replaced = _replace(file.resolve(), user.name, lines)
    except OSError as error:
        raise WaymeshError(f"{file}: {error.strerror or error}") from None
    print(f"{file}: user {user.name} {'changed' if replaced else 'added'}")
    return 0


def _lines(user: NewUser) -> list[str]:
    try:
        make_line(user.name, "-", "plain")
    except ValueError as error:
        raise WaymeshError(str(error)) from None
    password = _password()
    try:
        return [make_line(user.name, password, name, user.iterations) for name in dict.fromkeys(user.mechanisms)]
    except ValueError:  # its text could have parts of the password
        raise WaymeshError("the password has characters that SASL does not allow") from None


def _password() -> str:
    """From the terminal without echo, twice; or the only line of the standard input."""
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise WaymeshError("the two passwords are not the same")
    else:
        try:
            password, *more = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise WaymeshError("the password on the standard input is not UTF-8") from None
        if more:
            raise WaymeshError("the standard input has more than one line")
    if not password or not password.isprintable():
        raise WaymeshError("the password is empty, or has control characters")
    return password


def _replace(file: Path, name: str, lines: Sequence[str]) -> bool:
    """Write the file anew, at once for its readers; whether the user was in it."""
    kept, replaced, before = [], False, file.stat() if file.exists() else None
    if before is not None:
        for line in file.read_bytes().decode("utf-8", "surrogateescape").splitlines():
            if prepared(line.lstrip().partition(":")[0]) == prepared(name):
                replaced = True
            else:
                kept.append(line)
    text = "".join(f"{line}\n" for line in (*kept, *lines))
    handle, fresh = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as output:
            if before is not None:  # routers may run as another user
                os.fchown(handle, before.st_uid, before.st_gid)
            os.fchmod(handle, MODE if before is None else before.st_mode & 0o777)
            output.write(text.encode("utf-8", "surrogateescape"))
            output.flush()
            os.fsync(handle)
        os.replace(fresh, file)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        raise
    return replaced
