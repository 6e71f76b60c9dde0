"""Vhosts of files whose name patterns are equal but for their delimiters: as in Qpid Dispatch, the first one wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_router.policy.names import NewPatterns
from waymesh_router.policy.settings import alias_names


class FirstPatterns:
    """Takes vhosts in the order of their files, and leaves out the names that an earlier vhost covers.

    Clients of such a name are clients of the earlier vhost, which has a pattern for exactly these names.
    """

    def __init__(self, tree: NewPatterns) -> None:
        self._tree = tree()
        self._of: dict[str, str] = {}  # hostname of the vhost with the pattern, by name

    def take(self, vhost: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, list[str]]:
        """The attributes of a vhost without names that are covered, None if all are; and warnings.

        If its hostname is covered, its first other name replaces it: clients of these names must not get the rights of
        the default vhost. Equal names stay: which vhost is meant cannot be known, and creating the second one fails.
        """
        hostname, aliases = str(vhost["hostname"]), alias_names(str(vhost["aliases"] or ""))
        earlier = self._covers(hostname, hostname)
        covered = {alias: other for alias in aliases if (other := self._covers(alias, hostname)) is not None}
        if earlier is None and not covered:
            return vhost, []
        warnings = [
            f"vhost {hostname} aliases: {alias} is left out, because its pattern is that of vhost {other}"
            for alias, other in covered.items()
        ]
        left = [alias for alias in aliases if alias not in covered]
        if earlier is None:
            return {**vhost, "aliases": ",".join(left)}, warnings
        text = f"vhost {hostname}: is left out, because its pattern is that of vhost {earlier}"
        if not left:
            return None, [text, *warnings]
        text += f"; it stays for its other names, as vhost {left[0]}"
        return {**vhost, "hostname": left[0], "aliases": ",".join(left[1:])}, [text, *warnings]

    def _covers(self, name: str, hostname: str) -> str | None:
        """The hostname of the earlier vhost that covers a name; None if it is new, or exactly the same name."""
        if not name or name in self._of:
            return None
        try:
            self._tree.add(name, hostname)
        except KeyError:
            return self._tree.match(name)
        self._of[name] = hostname
        return None
