"""The user file that SASL PLAIN and SCRAM check passwords against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waymesh_router.runtime.errors import HostError

if TYPE_CHECKING:
    from waymesh_amqp.users import UserFile

REPORTED = 20
"""Lines of a user file that are reported one by one."""


def user_file_path(router: Mapping[str, Any]) -> Path | None:
    """`<saslConfigDir>/<saslConfigName>.users` of the `router` entity, None when it names no folder.

    The folder's own `<saslConfigName>.conf` belongs to Cyrus SASL, whose database we do not read.
    """
    folder = router.get("saslConfigDir")
    return Path(folder) / f"{router.get('saslConfigName') or 'qdrouterd'}.users" if folder else None


def read_users(router: Mapping[str, Any], report: Callable[[str], None]) -> UserFile | None:
    """The users of the file; None when there is none, and then nobody can log in with a password.

    `report(text)` is told of each line that cannot be used: its user cannot log in, the others can. Raises HostError
    when the file cannot be read.
    """
    path = user_file_path(router)
    if path is None or not path.exists():
        return None
    from waymesh_amqp.users import UserFile  # brings SCRAM, which most routers can do without

    try:
        users = UserFile.parse(path.read_bytes().decode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f"router: saslConfigDir: {path}: {error}") from None
    for problem in users.problems[:REPORTED]:
        report(f"{path}: {problem}; this user cannot log in")
    if len(users.problems) > REPORTED:
        report(f"{path}: {len(users.problems) - REPORTED} more lines cannot be used; their users cannot log in")
    return users
