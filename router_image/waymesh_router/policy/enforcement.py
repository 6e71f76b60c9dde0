"""Applies the policy: stores the settings, tracks open connections, counts denials. Callers carry out the decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from waymesh_router.policy.decide import (
    OF_ROUTER,
    OF_VHOST,
    UNAUTHORIZED,
    Allowed,
    Denied,
    Request,
    count_connection,
    decide_connection,
    is_dry_run,
    max_message_size,
    vhost_of,
)
from waymesh_router.policy.limit_warnings import Level, LimitWarnings, levels
from waymesh_router.policy.links import RECEIVER, SENDER, LinkDenied, LinkRequest, LinkRules, decide_link, link_rules
from waymesh_router.policy.settings import Group, Policy, Vhost
from waymesh_router.policy.statistics import Denials, OpenConnections, PolicyCounts, VhostCounts

CONNECTOR_GROUP = "$connector"
"""The user group that says which links the peers of connectors with `policyVhost` may attach, as in Qpid Dispatch."""


@dataclass(slots=True)
class Client:
    """An open client connection. Vhost and group are stored by name; None: vhost policy was off when it opened."""

    user: str
    host: str
    vhost: str | None
    group: str | None
    manages: bool = False
    """See `Request.manages`."""
    limits_sessions: bool = False
    """Whether the maximum number of sessions is the group's and not the listener's."""
    senders: int = 0
    receivers: int = 0
    open: bool = True
    policy: Policy | None = None
    """The settings from which `rules` were built."""
    rules: LinkRules | None = None
    given: LinkRules | None = None
    """The rules of a SASL service, which replace those of the group and also apply while vhost policy is off."""


def _nothing() -> None:
    return None


class Enforcement:
    """The policy of one router. `policy`: the current settings, which `replace` sets."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.counts = PolicyCounts()
        self.open = OpenConnections()
        self.on_replaced: Callable[[], None] = _nothing
        """Called after the settings were replaced."""
        self.warnings = LimitWarnings()

    def replace(self, policy: Policy) -> None:
        """Use new settings for later connections, links and management requests. Open connections and links stay."""
        self.policy = policy
        self.on_replaced()

    # ---- connections
    def connect(self, request: Request, now: float) -> tuple[Client, Allowed] | Denied:
        """Decide on a client's open. An allowed connection counts until `closed`."""
        verdict = decide_connection(self.policy, request, self.open, now)
        self.counts.connections_processed += 1
        if isinstance(verdict, Denied):
            self.counts.connections_denied += 1
            self.counts.total_denials += 1
            vhost = vhost_of(self.policy, request.hostname) if self.policy.enabled else None
            if vhost is not None:
                self._counts_of(vhost.hostname).connections_denied += 1
            return verdict
        count_connection(verdict, request, self.open.recent, now)
        vhost, group = verdict.vhost, verdict.group
        client = Client(
            user=request.user,
            host=request.host,
            vhost=None if vhost is None else vhost.hostname,
            group=None if group is None else group.name,
            manages=request.manages,
            limits_sessions=group is not None and bool(group.max_sessions) and not is_dry_run(self.policy, vhost),
        )
        self.open.total += 1
        if client.vhost is not None:
            self._counts_of(client.vhost).connections_approved += 1
            self.open.vhosts[client.vhost] += 1
            self.open.users[client.vhost, client.user] += 1
            self.open.hosts[client.vhost, client.host] += 1
        if verdict.would is not None:
            self.would_deny(client, "connections")
        return client, verdict

    def connector(self, vhost: str, user: str, host: str) -> Client:
        """The peer of a connector with `policyVhost`. Its links are checked; its connection does not count."""
        found = self.policy.vhosts.get(vhost)
        return Client(user, host, vhost if found is None else found.hostname, CONNECTOR_GROUP, open=False)

    def closed(self, client: Client) -> None:
        """The connection has ended. Further calls have no effect."""
        if not client.open:
            return
        client.open = False
        self.open.total -= 1
        if client.vhost is not None:
            self._leave(client, client.vhost)
        for level in self._levels(client):
            self.warnings.connection_closed(level)

    def _leave(self, client: Client, vhost: str) -> None:
        self.open.vhosts[vhost] -= 1
        self.open.users[vhost, client.user] -= 1
        self.open.hosts[vhost, client.host] -= 1
        for counter, key in ((self.open.users, (vhost, client.user)), (self.open.hosts, (vhost, client.host))):
            if not counter[key]:
                del counter[key]  # names of clients must not accumulate
        if not self.open.vhosts[vhost]:
            del self.open.vhosts[vhost]

    def due_warnings(self, client: Client, now: float) -> list[Level]:
        """The limits whose warning threshold an opened connection has reached, each of them once."""
        return [level for level in self._levels(client) if self.warnings.is_due(level, now)]

    def _levels(self, client: Client) -> Iterator[Level]:
        names = () if client.vhost is None else (client.vhost, client.user, client.host)
        return levels(self.policy, self._settings_of(client), names, self.open)

    # ---- links
    def unlimited(self, client: Client) -> bool:
        """Whether no rules apply to the client: vhost policy is off, or was off when the connection opened."""
        return client.given is None and (client.group is None or not self.policy.enabled)

    def rules_of(self, client: Client) -> LinkRules | None:
        """The rules of a client that is not `unlimited`; None if its vhost or group is no longer configured."""
        if client.given is not None:
            return client.given
        if client.policy is not self.policy:
            client.policy = self.policy
            _, group = self._settings_of(client)
            client.rules = None if group is None else link_rules(self.policy, group, client.user)
        return client.rules

    def group_of(self, client: Client) -> Group | None:
        """The group of a client that is not `unlimited`; None if its vhost or group is no longer configured."""
        return self._settings_of(client)[1]

    def attach(self, client: Client, request: LinkRequest) -> LinkDenied | None:
        """Decide on a link. An allowed one, also if only a dry run prevents its denial, counts until `detached`."""
        denied: LinkDenied | None = None
        if not self.unlimited(client):
            rules = self.rules_of(client)
            if rules is None:
                kind = RECEIVER if request.receiver else SENDER
                denied = LinkDenied(UNAUTHORIZED, "the vhost or the group is no longer configured", kind)
            else:
                denied = decide_link(rules, request, client.senders, client.receivers)
        if denied is not None and self.dry_run(client):
            self.would_deny(client, "links")
            denied = replace(denied, carried_out=False)
        elif denied is not None:
            self.counts.links_denied += 1
            self._denied(client, denied.kind, "links")
            return denied
        if request.receiver:
            client.receivers += 1
        else:
            client.senders += 1
        return denied

    def detached(self, client: Client, receiver: bool) -> None:
        """An allowed link has ended."""
        if receiver:
            client.receivers -= 1
        else:
            client.senders -= 1

    def max_message_size(self, client: Client) -> tuple[int, bool]:
        """Maximum bytes of a message on a new link, 0: no limit; and whether larger messages are only counted."""
        allowed = Allowed(None, None) if self.unlimited(client) else Allowed(*self._settings_of(client))
        size = max_message_size(self.policy, allowed, client.manages)
        of_router = all(level is None or level.max_message_size is None for level in (allowed.group, allowed.vhost))
        return size, bool(size) and is_dry_run(self.policy, allowed.vhost, OF_ROUTER if of_router else OF_VHOST)

    def max_sessions(self, client: Client) -> int:
        """`maxSessions` of the client's group as configured now; 0: no limit."""
        _, group = self._settings_of(client)
        return 0 if group is None or not self.policy.enabled else group.max_sessions or 0

    # ---- dry run
    def dry_run(self, client: Client) -> bool:
        """Whether denials by the settings are not enforced for the client. Denials by a SASL service always are."""
        vhost, _ = self._settings_of(client)
        return client.given is None and is_dry_run(self.policy, vhost)

    def would_deny(self, client: Client, kind: str = "") -> None:
        """Count a denial that a dry run prevented; `kind`: see `DryRunCounts`."""
        self.counts.dry_run.add(kind)
        if client.vhost is not None:
            self._counts_of(client.vhost).dry_run.add(kind)

    # ---- sessions and messages
    def session_denied(self, client: Client) -> None:
        """Count a session over maxSessions."""
        self.counts.sessions_denied += 1
        self._denied(client, "sessions")

    def message_too_large(self, client: Client) -> None:
        """Count a message over maxMessageSize."""
        self.counts.sizes_denied += 1
        self._denied(client, "message_sizes")

    def message_denied(self, client: Client) -> None:
        """Count a message to an address, or of a user, that is not allowed."""
        self.counts.messages_denied += 1
        self._denied(client, "messages")

    # ---- private
    def _settings_of(self, client: Client) -> tuple[Vhost | None, Group | None]:
        """Vhost and group as they are configured now."""
        vhost = None if client.vhost is None else self.policy.vhosts.get(client.vhost)
        if vhost is None or vhost.hostname != client.vhost:  # the name is now an alias of another vhost
            return None, None
        return vhost, None if client.group is None else vhost.groups.get(client.group)

    def _counts_of(self, vhost: str) -> VhostCounts:
        return self.counts.vhosts.setdefault(vhost, VhostCounts())

    def _denied(self, client: Client, *kinds: str) -> None:
        """Count a denial under these attributes of the vhost's and the group's counts."""
        self.counts.total_denials += 1
        if client.vhost is None or client.group is None:
            return
        counts = self._counts_of(client.vhost)
        for denials in (counts.denials, counts.group_denials.setdefault(client.group, Denials())):
            for kind in kinds:
                setattr(denials, kind, getattr(denials, kind) + 1)
