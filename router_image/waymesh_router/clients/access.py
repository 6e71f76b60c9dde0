"""Applies the policy to clients: it decides on each open and attach, and sets the limits of connections and links.

Dispatch book 3.6 "Policy". Connectors and other interior routers are exempt; for edge routers, see edge_groups.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import DecodeError
from waymesh_amqp.limits import MIN_MAX_FRAME
from waymesh_amqp.performatives import ErrorInfo
from waymesh_amqp.relayed import RelayedServerExchange
from waymesh_amqp.sasl import ANONYMOUS_USER
from waymesh_amqp.transfer import whole_transfer
from waymesh_amqp.types import decode, encode
from waymesh_router.clients.connection_uniqueness import FAILED
from waymesh_router.clients.dry_run import DryRunPermit
from waymesh_router.clients.edge_groups import EdgeGroups, of_edge_mode
from waymesh_router.clients.group_rights import GroupRights
from waymesh_router.clients.link_requests import forms_of, link_request, of_other_router
from waymesh_router.clients.tenant_spaces import TenantSpaces
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.forwarding.section_order import SectionOrder
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.link_kinds import WRITE_MANAGEMENT
from waymesh_router.core.links.mesh_links import INTER_ROUTER
from waymesh_router.core.tenants import is_temporary
from waymesh_router.events.event import MAX_CHARACTERS, Event, ModuleLog, about, short
from waymesh_router.policy.decide import LIMIT_EXCEEDED, UNAUTHORIZED, Denied, Request, named_by_client
from waymesh_router.policy.enforcement import Client, Enforcement
from waymesh_router.policy.given import given_rules
from waymesh_router.policy.links import ANONYMOUS, DYNAMIC, RECEIVER, SENDER, LinkRequest, may_create_link_route
from waymesh_router.policy.settings import Policy
from waymesh_schema.events import LogEvent
from waymesh_schema.rates import parse_rate

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.core import Core
    from waymesh_router.core.model import RouterConnection, RouterLink
    from waymesh_router.policy.links import LinkRules
    from waymesh_router.policy.settings import Group

CONNECTION_DENIED = "connection disallowed by local policy"
LINK_DENIED = "link disallowed by local policy"
"""Texts for clients. Details are only logged, because clients must not learn the settings."""
PUBLIC_REASONS = {
    (SENDER, LIMIT_EXCEEDED): "too many senders",
    (RECEIVER, LIMIT_EXCEEDED): "too many receivers",
    (SENDER, UNAUTHORIZED): "this target is not allowed",
    (RECEIVER, UNAUTHORIZED): "this source is not allowed",
    (DYNAMIC, UNAUTHORIZED): "a dynamic source is not allowed",
    (ANONYMOUS, UNAUTHORIZED): "an anonymous sender is not allowed",
}
MAX_CHANNELS = 65536
MAX_WINDOW = 1 << 24
"""Maximum incoming window in frames: the engine computes with twice the value."""


def no_policy() -> Enforcement:
    """The policy of a router that has no `policy` and `vhost` entities: the defaults of their attributes."""
    return Enforcement(Policy(PatternTree[str]))


class ClientAccess:
    """Decides on the opens of clients: by their vhost at a listener with `multiTenant`, then by the policy."""

    def __init__(
        self, enforcement: Enforcement, core: Core, listeners: Mapping[str, Mapping[str, Any]], log: ModuleLog
    ) -> None:
        """`listeners`: attributes by name."""
        self._enforcement = enforcement
        self._rights = GroupRights(enforcement)
        self._core = core
        self._refusals = core.refusals
        self._listeners = listeners
        self._spaces = TenantSpaces(enforcement, self._refusals, listeners, log)
        self._edges = EdgeGroups(enforcement, self._refusals, listeners, log)
        self._log = log

    def opened(self, conn: RouterConnection) -> None:
        """Handle a peer's open before it is answered: close the connection of a client that is not allowed."""
        if conn.settings.client:
            self._connected(conn)
            return
        if conn.multi_tenant:
            self._spaces.enter(conn)
        if conn.over or conn.remote is None or conn.role == INTER_ROUTER:
            return
        user = conn.user or ANONYMOUS_USER
        if conn.edge_router is not None:
            hostname = self._edges.vhost_name(conn)
            if self._edges.has_group(conn, user, hostname):
                self._decide(conn, user, hostname, ())
            elif not conn.over:
                self._core.edges.without_group.add(conn.id)
        else:
            hostname = conn.policy_vhost or named_by_client(conn.remote.hostname or "")
            self._decide(conn, user, hostname, conn.groups)

    def _connected(self, conn: RouterConnection) -> None:
        """The peer of a connector has opened: with policyVhost, its links are checked."""
        if conn.policy_vhost:
            client = self._enforcement.connector(conn.policy_vhost, conn.user or "", conn.peer.address)
            conn.access = self._access_of(conn, client)

    def _access_of(self, conn: RouterConnection, client: Client) -> _ConnectionAccess:
        return _ConnectionAccess(conn, client, self._enforcement, self._rights, self._core.router_id, self._log)

    def _decide(self, conn: RouterConnection, user: str, hostname: str, groups: tuple[str, ...]) -> None:
        request = Request(
            user=user,
            host=conn.peer.address,
            hostname=hostname,
            manages=conn.for_managers,
            listener=conn.origin,
            listener_rate=parse_rate(self._listeners.get(conn.origin, {}).get("connectionRate")),
            groups=groups,
        )
        verdict = self._enforcement.connect(request, self._core.now)
        who = f"user={_short(request.user)} host={request.host} vhost={_short(hostname)}"
        if isinstance(verdict, Denied):
            text = f"[C{conn.id}] DENY connection: {who}: {verdict.reason}"
            self._log("info", text, _denied(conn, "connection", verdict.reason))
            self._refusals.report("connection", conn.peer.host, verdict.condition, verdict.reason, conn)
            conn.settings.properties[FAILED] = True
            conn.close_with(ErrorInfo(verdict.condition, CONNECTION_DENIED))
            return
        client, allowed = verdict
        group = allowed.group
        sasl = conn.settings.sasl
        relayed = isinstance(sasl, RelayedServerExchange) and conn.edge_router is None
        permissions = sasl.permissions if relayed else None  # type: ignore[union-attr]
        if permissions is not None:
            tree = self._enforcement.policy.tree
            client.given = given_rules(group, permissions.targets, permissions.sources, tree)
        conn.access = self._access_of(conn, client)
        if allowed.would is not None:
            text = f"[C{conn.id}] would DENY connection: {who}: {allowed.would.reason}"
            self._log("info", text, _denied(conn, "connection", allowed.would.reason, carried_out=False))
        self._warn(client)
        if allowed.vhost is not None and group is not None:
            self._rights.opened(conn, client)
            if not self._enforcement.dry_run(client):
                _limit(conn, group)
            vhost = allowed.vhost.hostname
            event = about(LogEvent.POLICY_ALLOWED, conn, vhost=vhost, group=group.name)
            self._log("info", f"[C{conn.id}] ALLOW connection: {who}: vhost {vhost}, group {group.name}", event)

    def _warn(self, client: Client) -> None:
        """Warn of the limits whose warning threshold the connection has reached."""
        for level in self._enforcement.due_warnings(client, self._core.now):
            event = Event(LogEvent.POLICY_LIMIT, detail={"about": level.about, **level.detail})
            self._log("warning", level.text, event)
            self._core.context.telemetry.event("policy.limit", "warning", level.about, level.detail)


class _ConnectionAccess:
    """The access of one client connection; implements core's `Access`."""

    def __init__(
        self,
        conn: RouterConnection,
        client: Client,
        enforcement: Enforcement,
        rights: GroupRights,
        router_id: str,
        log: ModuleLog,
    ) -> None:
        self._conn = conn
        self._client = client
        self._enforcement = enforcement
        self._rights = rights
        self._router_id = router_id
        self._log = log
        self._max_sessions_seen = 0  # in a dry run

    def attach(self, lk: RouterLink, attach: Attach) -> None:
        edge = self._conn.edge_router is not None
        if edge and of_edge_mode(attach):
            return
        client, enforcement = self._client, self._enforcement
        sends, has_rules = not attach.role, client.group is not None or client.given is not None
        if sends:
            lk.max_message_size, lk.counts_sizes = enforcement.max_message_size(client)
        if not has_rules and not lk.max_message_size:
            return
        rules, request = None, link_request(attach, self._router_id, self._conn.management == WRITE_MANAGEMENT)
        if has_rules:
            self._check_link(lk, replace(request, anonymous=False) if edge else request)  # edge mode needs such senders
            rules = None if enforcement.unlimited(client) else enforcement.rules_of(client)
        permit = _LinkPermit(client, enforcement, rules, self._router_id, sends)
        if rules is not None and sends:
            permit.may_reply = edge
            if not (edge or (rules.group.allow_waypoint_links and rules.group.allow_fallback_links)):
                self._conn.strip_in = True  # `x-opt-qd.phase` would lead messages to where these links lead
            permit.checks_user = not (edge or rules.group.allow_user_id_proxy)  # it has checked its own clients
            permit.checks_targets = request.anonymous and not (
                rules.targets.every and rules.group.allow_admin_status_update
            )
        if lk.counts_sizes or (has_rules and enforcement.dry_run(client)):
            # The permit checks each message and counts those that would be denied.
            lk.permit = DryRunPermit(permit, self._would_deny)
            lk.checks_messages = sends
            return
        lk.permit, lk.checks_user, lk.checks_targets = permit, permit.checks_user, permit.checks_targets
        lk.checks_messages = permit.checks_user or permit.checks_targets
        if lk.checks_messages:
            lk.section_order = SectionOrder()

    def _check_link(self, lk: RouterLink, request: LinkRequest) -> None:
        """Raise Refusal for a link that policy does not allow, unless in a dry run."""
        client = self._client
        denied = self._enforcement.attach(client, request)
        self._count_excess_sessions()
        if denied is None:
            return
        self._log(
            "info",
            f"[C{self._conn.id}] {'DENY' if denied.carried_out else 'would DENY'} "
            f"{'receiver' if request.receiver else 'sender'} {_short(lk.name)}: "
            f"user={_short(client.user)} vhost={_short(client.vhost)} group={_short(client.group)} "
            f"address={_short(', '.join(request.addresses))}: {denied.reason}",
            _denied(self._conn, "link", denied.reason, carried_out=denied.carried_out, link=short(lk.name)),
        )
        if denied.carried_out:
            refusal = Refusal(denied.condition, f"{LINK_DENIED}: {PUBLIC_REASONS[denied.kind, denied.condition]}")
            refusal.logged = True
            raise refusal

    def _count_excess_sessions(self) -> None:
        """In a dry run, the open does not announce maxSessions: count sessions above it when links attach."""
        most = self._enforcement.max_sessions(self._client) if self._enforcement.dry_run(self._client) else 0
        number = len(self._conn.sessions)
        if most and number > max(most, self._max_sessions_seen):
            self._max_sessions_seen = number
            self._would_deny("session: maxSessions is reached")

    def only_would_deny(self, what: str) -> bool:
        dry_run = self._enforcement.dry_run(self._client)
        if dry_run:
            self._would_deny(what)
        return dry_run

    def _would_deny(self, what: str, logged: bool = True) -> None:
        """Count a denial that a dry run prevented, and log it."""
        client = self._client
        self._enforcement.would_deny(client)
        if logged:
            who = f"user={_short(client.user)} vhost={_short(client.vhost)} group={_short(client.group)}"
            kind, _, reason = what.partition(": ")
            event = _denied(self._conn, kind, reason, carried_out=False)
            self._log("info", f"[C{self._conn.id}] would DENY {kind}: {who}: {reason}", event)

    def closed(self) -> None:
        client = self._client
        if self._conn.channels_exceeded and client.limits_sessions:
            text = "maxSessions is reached"
            event = _denied(self._conn, "session", text)
            self._log("info", f"[C{self._conn.id}] DENY session: user={_short(client.user)}: {text}", event)
            self._enforcement.session_denied(client)
        self._rights.closed(self._conn)
        self._enforcement.closed(client)

    def may_update_admin_status(self) -> bool:
        return self._allows("allow_admin_status_update")

    def in_group(self) -> bool:
        return self._client.group is not None or self._client.given is not None

    def limits_management(self) -> bool:
        return self._rights.limits(self._conn)

    def may_create_link_route(self, pattern: str) -> bool:
        if self._enforcement.unlimited(self._client):
            return True
        rules = self._enforcement.rules_of(self._client)
        return rules is not None and may_create_link_route(rules.group, pattern)

    def may_route_all(self) -> bool:
        return self._has_explicit(lambda rules: "#" in rules.group.link_route_patterns)

    def may_receive_reserved(self, text: str) -> bool:
        return self._has_explicit(lambda rules: all(map(rules.sources.names_reserved, forms_of(text) or ("",))))

    def _has_explicit(self, right: Callable[[LinkRules], bool]) -> bool:
        """Whether the group of the client gives it a right by name. Without policy, nobody has one."""
        rules = None if self._enforcement.unlimited(self._client) else self._enforcement.rules_of(self._client)
        return rules is not None and right(rules)

    def may_have_replies_at(self, text: str) -> bool:
        if self._enforcement.unlimited(self._client):
            return True
        rules, forms = self._enforcement.rules_of(self._client), forms_of(text)
        if forms and is_temporary(forms[-1]):
            return True
        allowed = () if rules is None or not forms else (rules.sources.allow, rules.targets.allow)
        return any(all(map(allow, forms)) for allow in allowed)

    def _allows(self, setting: str) -> bool:
        if self._enforcement.unlimited(self._client):
            return True
        rules = self._enforcement.rules_of(self._client)
        return rules is not None and bool(getattr(rules.group, setting))


class _LinkPermit:
    """The permit of one link of a client; implements core's `Permit`. `checks_…`: as in the link."""

    def __init__(
        self, client: Client, enforcement: Enforcement, rules: LinkRules | None, router_id: str, sender: bool
    ) -> None:
        """`sender`: whether the client sends on the link."""
        self._client = client
        self._enforcement = enforcement
        self._rules = rules
        self._router_id = router_id
        self._sender = sender
        self.checks_user = self.checks_targets = False
        self.may_reply = False  # to any reply address, which cannot be guessed
        self.user_ids = _user_ids(client.user) if rules is not None and sender else frozenset()

    def may_send_to(self, text: str) -> bool:
        if self._rules is None:
            return True
        every, group = self._rules.targets.every, self._rules.group
        forms = forms_of(text)
        if self.may_reply and forms and is_temporary(forms[-1]):
            return True
        if not every and not (forms and all(map(self._rules.targets.allow, forms))):
            return False
        return group.allow_admin_status_update or not of_other_router(text, self._router_id)

    def denies(self, lk: RouterLink, payload: bytes, more: bool) -> bool:
        sections = Sections()
        transfer = whole_transfer(payload, more)
        if not (self.checks_user or self.checks_targets):
            return False
        order: SectionOrder = lk.section_order or SectionOrder()
        order.begin()
        if not order.take(transfer) or not sections.scan(transfer):
            return True
        try:
            if self.checks_user:
                at = sections.find_user_id(transfer)
                if at == -2 or (at >= 0 and payload[at : decode(payload, at)[1]] not in self.user_ids):
                    return True
            if not self.checks_targets:
                return False
            at = sections.find_to(transfer)
            text = decode(payload, at)[0] if at >= 0 else None
        except DecodeError:
            return True
        return type(text) is not str or not self.may_send_to(text)

    def message_denied(self) -> None:
        self._enforcement.message_denied(self._client)

    def message_too_large(self) -> None:
        self._enforcement.message_too_large(self._client)

    def ended(self, lk: RouterLink) -> None:
        if self._client.group is not None or self._client.given is not None:
            self._enforcement.detached(self._client, not self._sender)


def _user_ids(user: str) -> frozenset[bytes]:
    """The allowed values of user-id, encoded: the user's own, an empty one and null. Spec: 1.6.19, 3.2.4."""
    values = (b"", user.encode())
    long = (b"\xb0" + len(value).to_bytes(4, "big") + value for value in values)
    return frozenset((encode(None), *map(encode, values), *long))


def _limit(conn: RouterConnection, group: Group) -> None:
    """Set the limits for the open and the begins that the router sends; 0: the limit of the listener remains."""
    settings = conn.settings
    if group.max_frame_size:
        settings.max_frame_size = conn.max_frame = max(group.max_frame_size, MIN_MAX_FRAME)
    if group.max_sessions:
        settings.channel_max = min(group.max_sessions, MAX_CHANNELS) - 1
        theirs = None if conn.remote is None else conn.remote.channel_max
        conn.channel_max = settings.channel_max if theirs is None else min(settings.channel_max, theirs)
    if group.max_session_window:
        settings.window_opens = False
        settings.window = min(max(group.max_session_window // settings.max_frame_size, 1), MAX_WINDOW)


def _denied(conn: RouterConnection, kind: str, reason: str, carried_out: bool = True, **detail: str) -> Event:
    """The event of a denial. `carried_out`: False if a dry run prevented it."""
    event = LogEvent.POLICY_DENIED if carried_out else LogEvent.POLICY_WOULD_DENY
    return about(event, conn, kind=kind, reason=reason, **detail)


def _short(text: str | None) -> str:
    """Text from a client, truncated for the log."""
    return repr((text or "")[:MAX_CHARACTERS])
