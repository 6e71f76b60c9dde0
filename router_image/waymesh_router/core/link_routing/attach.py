"""Forwards attaches, hop by hop, to a container, and returns the answers.

Routing chapter "Configuring Link Routing", inter-router.md "Link routes across routers".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import FRAME_SIZE_TOO_SMALL, NOT_ALLOWED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from waymesh_amqp.performatives import Attach, ErrorInfo
from waymesh_router.core import tenants
from waymesh_router.core.addresses.keys import MOBILE, of_routers
from waymesh_router.core.addresses.patterns import split_words
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.forwarding.annotations import FALLBACK
from waymesh_router.core.link_kinds import ROUTED
from waymesh_router.core.link_routing import names, no_local, rewriting
from waymesh_router.core.link_routing.endings import RoutedEndings
from waymesh_router.core.link_routing.held import Again
from waymesh_router.core.link_routing.route_candidates import ClientLink, RouteCandidate, UpstreamLink
from waymesh_router.core.link_routing.routes import LinkRoute
from waymesh_router.core.link_routing.sessions import MirrorSessions, SessionPending
from waymesh_router.core.link_routing.ways import HERE, Ways
from waymesh_router.core.links.mesh_links import INTER_ROUTER, to_router
from waymesh_router.events.event import short

if TYPE_CHECKING:
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.containers.registry import Containers
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.edge.uplink import Uplink
    from waymesh_router.core.link_routing.routes import LinkRoutes
    from waymesh_router.core.links.registry import LinkRegistry
    from waymesh_router.core.model import RouterConnection, RouterLink, Target
    from waymesh_router.core.settlement.interruptions import Interruptions

_PHASES = f"0123456789{FALLBACK}"
NO_ROUTE = "qd:no-route-to-dest"
NO_ROUTE_TEXT = "No route to the destination node"


class RoutedAttaches:
    """Forwards attaches of peers: the partner of a link is this router's link to the next hop."""

    def __init__(
        self,
        context: CoreContext,
        addresses: AddressTable,
        links: LinkRegistry,
        link_routes: LinkRoutes,
        interruptions: Interruptions,
        containers: Containers,
    ) -> None:
        self.resumable = True  # whether to route links whose terminus outlives the connection
        self._context = context
        self._addresses = addresses
        self._links = links
        self._link_routes = link_routes
        self._interruptions = interruptions
        self._loads: dict[int, int] = {}  # number of forwarded links, by id of the connection
        self._made: dict[str, tuple[RouterLink, LinkRoute | None]] = {}  # nodes of dynamic termini, by address
        self._mirrors = MirrorSessions(context.portions)
        self._ways = Ways()
        self._warned: set[str] = set()  # connectors and listeners with a warning about the names of durable links
        self.held = containers.held
        self.endings = RoutedEndings(context, interruptions)

    def pass_on(self, conn: RouterConnection, lk: RouterLink, attach: Attach) -> bool:
        """Forward or hold an attach; False if no link route matches. Raises Refusal."""
        again = partial(self.pass_on, conn, lk, attach)
        candidates, routing_address = self._candidates_for(conn, lk, attach)
        taken = {} if to_router(conn) else no_local.requested_filters(attach)
        if taken:
            attach = no_local.without_filters(attach, taken)
        if candidates is None:
            if to_router(conn):
                raise Refusal(NO_ROUTE, NO_ROUTE_TEXT)
            return False
        if not self.resumable and rewriting.outlives_connection(attach):
            raise Refusal(NOT_ALLOWED, "link-routed termini that outlive the connection are disabled on this router")
        self._pass_to(candidates, lk, attach, routing_address, taken, again)
        return True

    def ask(self, uplink: Uplink | None, lk: RouterLink, attach: Attach) -> bool:
        """At an edge router: ask the interior router if its own link routes for an attach have no container."""
        text = rewriting.route_address(attach) if uplink is not None else None
        lacking = bool(text) and self._link_routes.lack_container(str(text), attach.role)
        return lacking and uplink is not None and uplink.look_up(lk, attach)

    def forward_to_interior(self, lk: RouterLink, attach: Attach, uplink: RouterConnection) -> None:
        """At an edge router: forward or hold an attach for the interior router, which has the route. Raises Refusal."""
        again = partial(self.forward_to_interior, lk, attach, uplink)
        taken = no_local.requested_filters(attach)
        if taken:
            attach = no_local.without_filters(attach, taken)
        self._pass_to([RouteCandidate(uplink, None)], lk, attach, None, taken, again)

    def _pass_to(
        self,
        candidates: Iterable[RouteCandidate],
        lk: RouterLink,
        attach: Attach,
        routing_address: str | None,
        taken: dict[Any, Any],
        again: Again,
    ) -> None:
        """Forward an attach to the first candidate that takes it; hold it if that is not known. Raises Refusal."""
        refusal = Refusal(NO_ROUTE, NO_ROUTE_TEXT)
        for candidate in candidates:
            try:
                to_add = routing_address if candidate.conn.role == INTER_ROUTER else None
                route = self._open_upstream(candidate, lk, attach, to_add)
            except Refusal as e:
                refusal = e
            except AmqpError as e:
                too_long = e.condition == FRAME_SIZE_TOO_SMALL
                refusal = Refusal(e.condition if too_long else RESOURCE_LIMIT_EXCEEDED, e.description)
            except SessionPending as pending:
                self.held.add(pending.connection, lk, again)
                return
            else:
                if not to_router(lk.connection):
                    no_local.link_forwarded(lk.connection, lk, route, taken)
                return
        raise refusal

    def _candidates_for(
        self, conn: RouterConnection, lk: RouterLink, attach: Attach
    ) -> tuple[Iterable[RouteCandidate] | None, str | None]:
        """Candidates for an attach, None if no link route matches; and the routing address if the attach has none."""
        text = rewriting.route_address(attach)
        if text is None or ((conn.tenant or lk.edge) and not text):
            # Without an address, a tenant could leave its address space, and an edge router has links of its own.
            return None, None
        if not text and not to_router(conn) and rewriting.is_dynamic_source(attach) and self._links.manages(lk.session):
            return None, None
        routing_address = rewriting.added_routing_address(attach) if to_router(conn) else conn.route_address
        temporary = rewriting.is_temporary(attach)
        further = routing_address if temporary else None  # the next router may have removed it already
        if text in self._made:
            maker, _ = self._made[text]
            there: RouterConnection = maker.connection
            return [RouteCandidate(there, None if maker.route is None else maker.route.entity)], further
        routes = self._addresses.link_routes
        keys = self._keys(conn, text, attach.role) if text or not routing_address else None
        if keys is not None:
            return self._candidates(conn, lk, keys, text == rewriting.COORDINATOR), further
        if routing_address and (temporary or text in ("", rewriting.COORDINATOR)):
            keys = routes.match(routing_address, attach.role) or []
            return self._candidates(conn, lk, keys, text == rewriting.COORDINATOR), routing_address
        # all links of a transaction go to the connection of its coordinator
        coordinators = self._mirrors.connections(lk.session) if not text else {}
        return [RouteCandidate(conn, None) for conn in coordinators.values()] or None, None

    def _keys(self, conn: RouterConnection, text: str, outgoing: bool) -> list[str] | None:
        """Keys of the link routes for an address that a peer uses; None if there is none."""
        keys = self._addresses.link_routes.match(text, outgoing)
        if keys is None or not conn.tenant or text == rewriting.COORDINATOR:
            return keys
        return [key for key in keys if tenants.serves(conn.tenant, key)] or None

    def known_to(self, lk: RouterLink, text: str) -> bool:
        """Whether the client of a link may use a link route for an address: not those of other tenants."""
        conn: RouterConnection = lk.connection
        return not conn.tenant or self._keys(conn, text, False) is not None

    def tick(self) -> None:
        """Answer overdue detaches; call it several times a second."""
        self._mirrors.tidy()
        self.held.tick()
        self.endings.tick()

    def _candidates(
        self, conn: RouterConnection, lk: RouterLink, keys: list[str], coordinator: bool
    ) -> Iterator[RouteCandidate]:
        """Candidates, best first: containers of this router, those with the fewest links first, then other routers.

        All links of a transaction go to the connection of its coordinator, this to that of the links before it, and
        over the same routers, also where there is a better path now. The connection of the attach itself is the last
        choice: a container may attach to its own address. An attach of an edge router is never returned to it.
        """
        origin, ways = lk.session, self._ways
        used: Collection[int] = self._mirrors.connections(origin)
        led_to: Collection[str] = ()
        if coordinator:
            used, led_to = {there.id for there in ways.over(origin, HERE)}, ways.routers(origin)
        local: dict[int, RouteCandidate] = {}
        back: RouteCandidate | None = None
        for key in keys:
            for entity, there in self._link_routes.serving(key):
                if there is conn:
                    back = back or RouteCandidate(there, entity, key)
                elif not there.over:
                    local.setdefault(there.id, RouteCandidate(there, entity, key))
        yield from sorted(local.values(), key=lambda w: (w.conn.id not in used, self._loads.get(w.conn.id, 0)))
        remote: dict[int, tuple[tuple[bool, int], RouteCandidate]] = {}
        for key in keys:
            address = self._addresses.by_key.get(key)
            targets: Iterable[Target] = () if address is None else address.targets.values()
            for target in targets:
                neighbour = target.neighbour()
                next_hop = neighbour.connection if neighbour is not None else None
                router = target.node.id
                next_hop = None if next_hop is None else ways.next_hop(origin, router) or next_hop
                if next_hop is None or next_hop is conn:
                    continue
                rank = (router not in led_to and next_hop.id not in used, target.node.cost)
                if next_hop.id not in remote or rank < remote[next_hop.id][0]:
                    remote[next_hop.id] = (rank, RouteCandidate(next_hop, None, key, router))
        found = remote.values()
        for _, candidate in sorted(found, key=lambda f: (*f[0], self._loads.get(f[1].conn.id, 0))):
            yield candidate
        if back is not None and not lk.edge:
            yield back

    def _open_upstream(
        self, candidate: RouteCandidate, lk: RouterLink, attach: Attach, routing_address: str | None
    ) -> UpstreamLink:
        """Attach a link of this router in place of the peer's. Raises AmqpError."""
        conn: RouterConnection = lk.connection
        coordinator = attach.target is not None and attach.target.kind == "coordinator"
        session = self._mirrors.session(lk.session, candidate.conn)
        client = names.client_link(conn, attach)
        name = names.upstream_name(conn, candidate.conn, attach, self._context.router_id, client)
        announced = client if candidate.conn.is_router() else None
        terms = rewriting.upstream_attach(attach, name, candidate.entity, routing_address, announced)
        upstream = self._links.open_link(session, terms)
        self._mirrors.link_opened(lk.session, session, coordinator)
        self._loads[candidate.conn.id] = self._loads.get(candidate.conn.id, 0) + 1
        terminus = attach.remote_terminus
        route = UpstreamLink(candidate.entity, candidate.key, terminus is not None and terminus.dynamic)
        route.origin, route.router = lk.session, candidate.router
        self._ways.link_opened(lk.session, candidate.router, candidate.conn)
        if client is not None:
            route.owner = client.owner
            self._warn_of_names(candidate.conn, client)
        upstream.route = route
        if candidate.entity is not None:
            candidate.entity.links += 1
        for one, other in ((lk, upstream), (upstream, lk)):
            one.kind = ROUTED
            one.passing = True
            one.capacity = one.connection.link_capacity
            one.partner = other
        return route

    def _warn_of_names(self, there: RouterConnection, client: ClientLink) -> None:
        """Warn, once for each connector or listener, that a user's subscription there is not safe from other users."""
        origin = there.origin
        if there.is_router() or there.durable_names or not client.owner or origin in self._warned:
            return
        self._warned.add(origin)
        text = "another user with the same container-id gets the durable links of a user (as with container)"
        self._context.log("ROUTER_CORE", "warning", f"'{short(origin)}' has no durableNames: {text}")

    def candidates(self, lk: RouterLink, attach: Attach) -> Iterable[RouteCandidate]:
        """Candidates for a link of the router itself, for messages of an anonymous sender, best first."""
        conn: RouterConnection = lk.connection
        keys = self._keys(conn, rewriting.route_address(attach) or "", False)
        return () if keys is None else self._candidates(conn, lk, keys, False)

    def answered(self, upstream: RouterLink, attach: Attach) -> None:
        """The next hop answered: answer the peer's attach."""
        lk = upstream.partner
        if lk is None:
            return
        route = upstream.route
        answer = rewriting.backward_attach(attach, lk.name, None if route is None else route.entity)
        answer.handle = lk.handle
        if lk.is_sender:
            answer.initial_delivery_count = lk.delivery_count
        if route is not None and route.dynamic:
            self._node_made(upstream, route, rewriting.made_address(answer))
        if route is not None and route.taken:
            no_local.confirm_filters(answer, route.taken)
        if lk.max_message_size and not lk.counts_sizes and not lk.is_sender:
            answer.max_message_size = min(answer.max_message_size or lk.max_message_size, lk.max_message_size)
        conn: RouterConnection = lk.connection
        if lk.is_sender:
            answer.source = tenants.as_written(conn.tenant, answer.source)
        else:
            answer.target = tenants.as_written(conn.tenant, answer.target)
        lk.send_attach(answer)
        if lk.usable():
            self._interruptions.credit.on_credit(lk if lk.is_sender else upstream)

    def lost(self, lk: RouterLink, error: ErrorInfo | None) -> None:
        """One of two partners has ended: detach the other with the same error, after the last delivery has ended."""
        if lk.route is not None:
            self._node_gone(lk.route)
            there = lk.connection.id
            self._loads[there] = self._loads.get(there, 1) - 1
            if not self._loads[there]:
                del self._loads[there]
            self._mirrors.link_gone(lk.session)
            if lk.route.origin is not None:
                self._ways.link_gone(lk.route.origin, lk.route.router, lk.connection)
            if lk.route.entity is not None:
                lk.route.entity.links -= 1
        self.endings.begin(lk, error)

    # ---- nodes that containers created for dynamic termini
    def _node_made(self, upstream: RouterLink, route: UpstreamLink, address: str) -> None:
        """Route links to the node like the link that created it, as long as that link exists.

        The router at the container announces the address to the mesh, unless a link route covers it anyway.
        """
        words = split_words(address)
        if not any(words) or address in self._made or "*" in words or "#" in words:
            return
        entity: LinkRoute | None = None
        there: RouterConnection = upstream.connection
        if self._belongs_to_others(address, there):
            text = f"the container chose the address '{short(address)}' for a dynamic node, but it belongs to others"
            self._context.log("ROUTER_CORE", "warning", f"[C{there.id}] {text}: no links are routed to the node")
            return
        route.made = address
        if not to_router(there) and not self._addresses.link_routes.match_both(address):
            entity = LinkRoute({"direction": "both", "pattern": address})
            entity.place = ("id", str(there.id))
            self._link_routes.activate(entity)
        self._made[address] = upstream, entity

    def _belongs_to_others(self, address: str, there: RouterConnection) -> bool:
        """Whether a container must not get the links to an address that it chose: one that is in use in the mesh, is
        reserved, or belongs to a link route of other containers."""
        if of_routers(address) or address == rewriting.COORDINATOR:
            return True
        if any(f"{MOBILE}{phase}{address}" in self._addresses.by_key for phase in _PHASES):
            return True
        routes = self._addresses.link_routes
        keys = {key for outgoing in (True, False) for key in routes.match(address, outgoing) or ()}
        served = any(conn is there for key in keys for _, conn in self._link_routes.serving(key))
        return bool(keys) and not served and not to_router(there)

    def _node_gone(self, route: UpstreamLink) -> None:
        """The link that created the node has ended, and with it the node."""
        _, entity = self._made.pop(route.made, (None, None)) if route.made else (None, None)
        if entity is not None:
            self._link_routes.deactivate(entity)
