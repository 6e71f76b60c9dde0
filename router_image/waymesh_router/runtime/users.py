"""The user file that SASL PLAIN and SCRAM check passwords against."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waymesh_router.runtime.errors import HostError

if TYPE_CHECKING:
    from waymesh_amqp.users import UserFile


def user_file_path(router: Mapping[str, Any]) -> Path | None:
    """`<saslConfigDir>/<saslConfigName>.users` of the `router` entity, None when it names no folder.

    The folder's own `<saslConfigName>.conf` belongs to Cyrus SASL, whose database we do not read.
    """
    folder = router.get("saslConfigDir")
    return Path(folder) / f"{router.get('saslConfigName') or 'qdrouterd'}.users" if folder else None


def read_users(router: Mapping[str, Any]) -> UserFile | None:
    """The users of the file; None when there is none, and then nobody can log in with a password. Raises HostError."""
    path = user_file_path(router)
    if path is None or not path.exists():
        return None
    from waymesh_amqp.users import UserFile, UserFileError  # brings SCRAM, which most routers can do without

    try:
        return UserFile.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, UserFileError) as error:
        raise HostError(f"router: saslConfigDir: {path}: {error}") from None
