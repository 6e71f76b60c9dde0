"""`waymesh user`: lines of users files, with keys instead of passwords."""

from __future__ import annotations

import base64
import contextlib
import getpass
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from waymesh_amqp.credentials import SCRAM_MECHANISMS, prepared
from waymesh_amqp.users import make_line
from waymesh_operator.errors import WaymeshError
from waymesh_schema.text import one_line

DEFAULT_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""Names of the keys of a Secret."""
MODE = 0o600
"""File mode of a new users file: with the stored keys, an attacker can guess passwords or impersonate the router."""


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user whose password will be read."""

    name: str
    mechanisms: Sequence[str]
    iterations: int


@dataclass(frozen=True, slots=True)
class UserOptions:
    """What the command should do; an empty string is an option that was not given."""

    name: str
    file: Path | None = None
    secret: str = ""
    namespace: str = ""
    output: str = "yaml"
    remove: bool = False
    list: bool = False

    def check(self) -> None:
        """Raises WaymeshError for options that exclude each other."""
        if self.list and (self.file is None or self.name or self.remove):
            raise WaymeshError("--list takes --file and no user")
        if not self.list and not self.name:
            raise WaymeshError("name a user, or list all with --list --file FILE")
        if self.secret and self.file is not None:
            raise WaymeshError("give --file or --secret, not both")
        if self.namespace and not self.secret:
            raise WaymeshError("--namespace is for --secret")
        if self.output != "yaml":
            raise WaymeshError(f"--output {self.output}: must be yaml")
        if self.remove and not self.secret and self.file is None:
            raise WaymeshError("--remove takes --file or --secret")
        if self.secret and not _KEY.fullmatch(self.name):
            raise WaymeshError(f"{self.name!r} cannot be a key of a Secret: use letters, digits, -, _ and .")


def run_user(options: UserOptions, mechanisms_: Sequence[str] | None, iterations: int) -> int:
    """Print, add, remove or list users. Raises WaymeshError."""
    options.check()
    new = NewUser(options.name, mechanisms(mechanisms_), iterations)
    if options.secret:
        return _run_secret(new, options)
    if options.file is None:
        return run_hash(new)
    try:
        if options.list:
            return _run_list(options.file)
        return _run_remove(options.name, options.file) if options.remove else _run_add(new, options.file)
    except OSError as error:
        raise WaymeshError(f"{options.file}: {error.strerror or error}") from None


def mechanisms(asked: Sequence[str] | None) -> Sequence[str]:
    """Return the requested mechanisms. Raises WaymeshError for one without stored keys."""
    for name in asked or ():
        if name not in SCRAM_MECHANISMS:
            raise WaymeshError(f"--mechanism {name}: must be one of {', '.join(SCRAM_MECHANISMS)}")
    return asked or DEFAULT_MECHANISMS


def run_hash(user: NewUser) -> int:
    """Print the user's lines. Raises WaymeshError."""
    for line in _lines(user):
        print(line)
    return 0


def _run_add(user: NewUser, file: Path) -> int:
    """Put the user's lines into the file, in place of earlier ones. Raises WaymeshError and OSError."""
    replaced = _replace(file.resolve(), user.name, _lines(user))
    print(f"{file}: user {user.name} {'changed' if replaced else 'added'}")
    return 0


def _run_remove(name: str, file: Path) -> int:
    """Take all lines of a user out of the file. Raises WaymeshError and OSError."""
    if prepared(name) not in _users(file):
        raise WaymeshError(f"{file}: no user {name}")
    _replace(file.resolve(), name, ())
    print(f"{file}: user {name} removed")
    return 0


def _run_list(file: Path) -> int:
    """Print a line for each user: the name, and how the password is stored. Raises OSError."""
    for name, schemes in sorted(_users(file).items()):
        print(f"{one_line(name)}  {' '.join(schemes)}")
    return 0


def _users(file: Path) -> dict[str, list[str]]:
    """Return the users' names and the schemes of their lines, including unusable ones."""
    found: dict[str, list[str]] = {}
    for line in file.read_bytes().decode("utf-8", "backslashreplace").splitlines():
        name, colon, rest = line.lstrip().partition(":")
        if colon and not name.startswith("#"):
            scheme = rest.partition("}")[0].removeprefix("{")
            known = scheme == "plain" or scheme in SCRAM_MECHANISMS
            found.setdefault(prepared(name), []).append(scheme if known else "unusable")
    return found


def _run_secret(user: NewUser, options: UserOptions) -> int:
    """Print a Secret with the user's keys; to remove a user, a patch in which null removes. Raises WaymeshError."""
    metadata = {"name": options.secret} | ({"namespace": options.namespace} if options.namespace else {})
    head = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    if options.remove:
        print(yaml.safe_dump({**head, "data": {user.name: None}}, sort_keys=False), end="")
        return 0
    text = "".join(line.removeprefix(f"{user.name}:") + "\n" for line in _lines(user))
    data = {user.name: base64.b64encode(text.encode()).decode()}
    print(yaml.safe_dump({**head, "data": data}, sort_keys=False, width=1 << 20), end="")
    return 0


def _lines(user: NewUser) -> list[str]:
    try:
        make_line(user.name, "-", "plain")
    except ValueError as error:
        raise WaymeshError(str(error)) from None
    password = _password()
    try:
        return [make_line(user.name, password, name, user.iterations) for name in dict.fromkeys(user.mechanisms)]
    except ValueError:  # the exception's text could contain parts of the password
        raise WaymeshError("the password has characters that SASL does not allow") from None


def _password() -> str:
    """Read the password: from the terminal without echo, twice; or the only line of the standard input."""
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
    """Replace the file atomically and return whether the user was in it."""
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
