"""Checks messages of a client whose policy is in a dry run: denials are counted and logged, but not enforced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waymesh_router.core.access import Permit
    from waymesh_router.core.model import RouterLink


class DryRunPermit:
    """The permit of one link; implements core's `Permit`. Logs one line per reason, as there may be many messages."""

    user_ids: frozenset[bytes] = frozenset()

    def __init__(self, permit: Permit, would_deny: Callable[[str, bool], None]) -> None:
        """`permit`: the one that would apply without the dry run. `would_deny` counts a denial; it is called with a
        description, and whether to log it."""
        self._permit = permit
        self._would_deny = would_deny
        self._oversized = 0
        self._logged: set[str] = set()

    def may_send_to(self, text: str) -> bool:
        return True

    def denies(self, lk: RouterLink, payload: bytes, more: bool) -> bool:
        """Count a denial, but never deny the message."""
        self._count_oversized(lk)
        if self._permit.denies(lk, payload, more):
            self._count("message: its address or user-id is not allowed")
        return False

    def message_denied(self) -> None:
        """Nothing to count: no message is denied."""

    def message_too_large(self) -> None:
        """Of a maximum that is set where there is no dry run."""
        self._permit.message_too_large()

    def ended(self, lk: RouterLink) -> None:
        self._count_oversized(lk)
        self._permit.ended(lk)

    def _count_oversized(self, lk: RouterLink) -> None:
        for _ in range(lk.oversized - self._oversized):
            self._count(f"message: maxMessageSize {lk.max_message_size}")
        self._oversized = lk.oversized

    def _count(self, what: str) -> None:
        self._would_deny(what, what not in self._logged)
        self._logged.add(what)
