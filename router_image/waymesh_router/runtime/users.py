"""The user file with the passwords for SASL PLAIN and SCRAM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waymesh_router.runtime.errors import HostError

if TYPE_CHECKING:
    from waymesh_amqp.users import UserFile

REPORTED = 20
"""Number of lines of a user file that are reported individually."""


def user_file_path(router: Mapping[str, Any]) -> Path | None:
    """`<saslConfigDir>/<saslConfigName>.users` of the `router` entity, None without a folder.

    `<saslConfigName>.conf` in the same folder belongs to Cyrus SASL, whose database is not supported.
    """
    folder = router.get("saslConfigDir")
    return Path(folder) / f"{router.get('saslConfigName') or 'qdrouterd'}.users" if folder else None


def users_hint(router: Mapping[str, Any]) -> str:
    """Advice for a saslConfigDir with a Cyrus configuration but no user file; "" if there is no such problem."""
    path = user_file_path(router)
    if path is None or path.exists() or not path.with_suffix(".conf").exists():
        return ""
    return (
        f"router: saslConfigDir: {path.with_suffix('.conf')} is a configuration of Cyrus SASL. It and its sasldb "
        f"cannot be read, so nobody can log in with a password until there is {path} with a line "
        "`NAME:{plain}PASSWORD` for each user"
    )


def read_users(router: Mapping[str, Any], report: Callable[[str], None]) -> UserFile | None:
    """The users in the file; None if it does not exist, then nobody can log in with a password.
     `report(text)` is called for each unusable line: its user cannot log in, the others can. Raises HostError if the
    file is unreadable.
    """
    path = user_file_path(router)
    if path is None or not path.exists():
        return None
    from waymesh_amqp.users import UserFile  # imports SCRAM, which most routers do not need

    try:
        users = UserFile.parse(path.read_bytes().decode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f"router: saslConfigDir: {path}: {error}") from None
    for problem in users.problems[:REPORTED]:
        report(f"{path}: {problem}; this user cannot log in")
    if len(users.problems) > REPORTED:
        report(f"{path}: {len(users.problems) - REPORTED} more lines cannot be used; their users cannot log in")
    return users
