"""Counts of what policy allowed and denied. Dispatch book 3.6 "Policy"; Dispatch schema `policy`, `vhostStats`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from waymesh_router.policy.rates import RecentConnections


@dataclass(slots=True)
class Denials:
    """Number of denied requests since the router started, by kind."""

    sessions: int = 0
    senders: int = 0
    receivers: int = 0
    dynamic_sources: int = 0
    anonymous_senders: int = 0
    links: int = 0
    """Links of all kinds, including those counted above."""
    message_sizes: int = 0
    """Messages larger than maxMessageSize."""
    messages: int = 0
    """Messages to an address that is not allowed, or with a user-id that is not."""



@dataclass(slots=True)
class DryRunCounts:
    """Denials that a dry run prevented. `denials`: all, including sessions, messages and management requests."""

    connections: int = 0
    links: int = 0
    denials: int = 0

    def add(self, kind: str = "") -> None:
        """Count a denial, and one of `kind` (`connections` or `links`)."""
        self.denials += 1
        if kind:
            setattr(self, kind, getattr(self, kind) + 1)


@dataclass(slots=True)
class VhostCounts:
    """Counts of one vhost: connections, and denials by group."""

    connections_approved: int = 0
    connections_denied: int = 0
    denials: Denials = field(default_factory=Denials)
    group_denials: dict[str, Denials] = field(default_factory=dict)
    dry_run: DryRunCounts = field(default_factory=DryRunCounts)


@dataclass(slots=True)
class PolicyCounts:
    """Counts of the router, of client connections only. `vhosts`: by the vhost's name (never an alias)."""

    connections_processed: int = 0
    connections_denied: int = 0
    links_denied: int = 0
    sessions_denied: int = 0
    sizes_denied: int = 0
    """Messages larger than maxMessageSize."""
    messages_denied: int = 0
    """Messages with an address or a user-id that is not allowed."""
    total_denials: int = 0
    dry_run: DryRunCounts = field(default_factory=DryRunCounts)
    vhosts: dict[str, VhostCounts] = field(default_factory=dict)


@dataclass(slots=True)
class OpenConnections:
    """Numbers of open client connections: all, by vhost, by (vhost, user) and by (vhost, host).

    `recent`: recently opened connections, for the rates.
    """

    total: int = 0
    vhosts: Counter[str] = field(default_factory=Counter)
    users: Counter[tuple[str, str]] = field(default_factory=Counter)
    hosts: Counter[tuple[str, str]] = field(default_factory=Counter)
    recent: RecentConnections = field(default_factory=RecentConnections)
