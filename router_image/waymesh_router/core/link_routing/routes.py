"""Link routes: attaches that are passed on, hop by hop, to a container, and what comes back for them.

Routing chapter "Configuring Link Routing", Dispatch book "Link Routing", inter-router.md "Link routes across routers".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import FRAME_SIZE_TOO_SMALL, NOT_ALLOWED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from waymesh_amqp.performatives import Attach, ErrorInfo
from waymesh_router.core.addresses.keys import link_route_key, link_route_pattern, outgoing_route
from waymesh_router.core.addresses.patterns import PatternTree, split_words
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.containers.registry import place_of, places_of
from waymesh_router.core.link_routing import names, no_local, rewriting
from waymesh_router.core.link_routing.candidates import RouteCandidate, UpstreamLink
from waymesh_router.core.link_routing.offers import (
    ContainerCapabilities,
    capabilities_of,
    common_capabilities,
    read_offer,
)
from waymesh_router.core.link_routing.sessions import MirrorSessions
from waymesh_router.core.model import LINK_BALANCED, ROUTED, Target

if TYPE_CHECKING:
    from waymesh_router.core.core import Core
    from waymesh_router.core.model import RouterConnection, RouterLink

INTER_ROUTER = "inter-router"
NO_ROUTE = "qd:no-route-to-dest"
NO_ROUTE_TEXT = "No route to the destination node"
LINK_LOST = "qd:routed-link-lost"
LINK_LOST_TEXT = "Connectivity to the peer container was lost"
BOTH = ("in", "out")
ANSWER_S = 5.0
"""So long a client waits at most for the answer to its detach, end or close, which is the container's. What the client
does next, maybe through another router, is to find a container that knows of its end."""
ACTIVE, INACTIVE = "active", "inactive"


class LinkRoute:
    """One linkRoute entity. `keys`: its addresses in the mesh, one for each direction; `links`: how many there are."""

    def __init__(self, attrs: Mapping[str, Any]) -> None:
        self.attrs = attrs
        directions = BOTH if attrs["direction"] == "both" else (attrs["direction"],)
        self.keys = [link_route_key(d, attrs.get("prefix"), attrs.get("pattern")) for d in directions]
        self.place = place_of(attrs)
        self.links = 0
        self.adds = str(attrs.get("addExternalPrefix") or "")
        self.removes = str(attrs.get("delExternalPrefix") or "")
        self.told: str | None = None
        """The state that the watcher knows."""


class LinkRoutes:
    """All link routes that a router knows: its own, by the identities of their entities, and those of the mesh."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._entities: dict[str, LinkRoute] = {}
        self._own: dict[str, list[LinkRoute]] = {}
        self._advertised: set[str] = set()
        self._trees: dict[bool, PatternTree[list[str]]] = {False: PatternTree(), True: PatternTree()}
        self._loads: dict[int, int] = {}
        self._made: dict[str, tuple[RouterLink, LinkRoute | None]] = {}
        self._mirrors = MirrorSessions()
        self._owing: deque[tuple[float, RouterLink]] = deque()
        self.resumable = True
        """Whether links are routed whose terminus outlives the connection."""

    def __len__(self) -> int:
        return len(self._entities)

    # ---- entities
    def add(self, attrs: Mapping[str, Any]) -> None:
        """A `linkRoute` entity."""
        entity = self._entities[attrs["identity"]] = LinkRoute(attrs)
        self._place(entity)
        self._tell(entity)

    def remove(self, identity: str) -> None:
        """A `linkRoute` entity goes; its links stay."""
        entity = self._entities.pop(identity)
        self._displace(entity)
        self._core.watcher.linkroute(entity, entity.told, None)

    def _place(self, entity: LinkRoute) -> None:
        """Route by it from now on."""
        for key in entity.keys:
            self._own.setdefault(key, []).append(entity)
            self._core.get_address(key)
            self._advertise(key)

    def _displace(self, entity: LinkRoute) -> None:
        """Route by it no longer."""
        for key in entity.keys:
            self._own[key].remove(entity)
            if not self._own[key]:
                del self._own[key]
            self._advertise(key)
            self._core.drop_if_unused(self._core.get_address(key))

    def stands(self, identity: str) -> tuple[bool, int]:
        """Whether the container of an entity is connected, and how many links go to it by the entity."""
        entity = self._entities.get(identity)
        return (False, 0) if entity is None else (self.state(entity) == ACTIVE, entity.links)

    def state(self, entity: LinkRoute) -> str:
        """active or inactive."""
        return ACTIVE if self._core.containers.at(entity.place) else INACTIVE

    def all(self) -> Iterable[LinkRoute]:
        """All of them."""
        return list(self._entities.values())

    def _tell(self, entity: LinkRoute) -> None:
        """Tell the watcher of another state."""
        before, entity.told = entity.told, self.state(entity)
        if entity.told != before:
            self._core.watcher.linkroute(entity, before, entity.told)

    def advertised(self) -> Iterable[str]:
        """Keys of the link routes that the mesh is told of."""
        return list(self._advertised)

    def _advertise(self, key: str) -> None:
        """Tell the mesh whether this router leads to a container for the address."""
        there = any(self._core.containers.at(entity.place) for entity in self._own.get(key, ()))
        if there:
            self._advertised.add(key)
            self.tell(key)
        elif not there and key in self._advertised:
            self._advertised.discard(key)
            self._core.mesh.local_removed(key)

    def tell(self, key: str) -> None:
        """Tell the mesh of an address, and of what the containers behind it offer; nothing where it knows."""
        offer = self.offer(key)
        self._core.mesh.offered(key, None if offer is None else offer.as_map())
        self._core.mesh.local_added(key, LINK_BALANCED)

    def containers_changed(self, conn: RouterConnection) -> None:
        """A container connected, or its connection is gone."""
        places = places_of(conn)
        entities = [entity for entity in self._entities.values() if entity.place in places]
        for key in {key for entity in entities for key in entity.keys}:
            self._advertise(key)
        for entity in entities:
            self._tell(entity)

    # ---- addresses
    def learn(self, key: str) -> None:
        """An address of a link route became known, here or in the mesh."""
        tree, pattern = self._trees[outgoing_route(key)], link_route_pattern(key)
        keys = tree.get(pattern)
        if keys is None:
            tree.add(pattern, [key])
        else:
            keys.append(key)

    def forget(self, key: str) -> None:
        """It is not known any more."""
        tree, pattern = self._trees[outgoing_route(key)], link_route_pattern(key)
        keys = tree.get(pattern) or []
        keys.remove(key)
        if not keys:
            tree.remove(pattern)

    def keeps(self, key: str) -> bool:
        """Whether an entity of this router names the address."""
        return key in self._own

    # ---- attach
    def attach(self, conn: RouterConnection, lk: RouterLink, attach: Attach) -> bool:
        """Pass on an attach; False where no link route is meant. Raises Refusal."""
        ways, told = self._ways_of(conn, lk, attach)
        taken = no_local.asked(attach) if conn.role != INTER_ROUTER else {}
        if taken:
            attach = no_local.without(attach, taken)
        if ways is None:
            if conn.role == INTER_ROUTER:
                raise Refusal(NO_ROUTE, NO_ROUTE_TEXT)
            return False
        if not self.resumable and rewriting.outlives_connection(attach):
            raise Refusal(NOT_ALLOWED, "this router routes no links whose terminus outlives the connection")
        refusal = Refusal(NO_ROUTE, NO_ROUTE_TEXT)
        for way in ways:
            try:
                self._pass_on(way, lk, attach, told if way.conn.role == INTER_ROUTER else None)
            except AmqpError as e:
                too_long = e.condition == FRAME_SIZE_TOO_SMALL
                refusal = Refusal(e.condition if too_long else RESOURCE_LIMIT_EXCEEDED, e.description)
            else:
                if conn.role != INTER_ROUTER:
                    no_local.passed_on(conn, lk, taken)
                return True
        raise refusal

    def _ways_of(
        self, conn: RouterConnection, lk: RouterLink, attach: Attach
    ) -> tuple[Iterable[RouteCandidate] | None, str | None]:
        """Where an attach may go, None where nowhere; and the address that routes it where it has none itself."""
        text = rewriting.route_address(attach)
        if text is None:
            return None, None
        told = rewriting.told_address(attach) if conn.role == INTER_ROUTER else conn.route_address
        temporary = rewriting.is_temporary(attach)
        further = told if temporary else None  # it may be gone at the next router, while this one still knows it
        if text in self._made:
            maker, _ = self._made[text]
            way: RouterConnection = maker.connection  # type: ignore[assignment]
            return [RouteCandidate(way, None if maker.route is None else maker.route.entity)], further
        tree = self._trees[attach.role]
        keys = tree.match(text) if text or not told else None
        if keys is not None:
            return self._ways(conn, lk, keys), further
        if told and (temporary or text in ("", rewriting.COORDINATOR)):
            return self._ways(conn, lk, tree.match(told) or []), told
        # of a transaction everything goes where its coordinator is
        coordinators = self._mirrors.connections(lk.session) if not text else {}
        return [RouteCandidate(there, None) for there in coordinators.values()] or None, None

    def containers(self, key: str) -> int:
        """Connected containers of this router that serve the address of a link route."""
        return len({conn.id for entity in self._own.get(key, ()) for conn in self._core.containers.at(entity.place)})

    def tick(self) -> None:
        """To be called several times a second."""
        self._mirrors.tidy()
        while self._owing and (self._owing[0][0] <= self._core.now or not self._owing[0][1].owing):
            self._owing.popleft()[1].answer_now()

    def _ways(self, conn: RouterConnection, lk: RouterLink, keys: list[str]) -> Iterator[RouteCandidate]:
        """Where it may go, best first: containers of this router, those with the fewest links first, then others."""
        used = self._mirrors.connections(lk.session)
        local: dict[int, RouteCandidate] = {}
        for key in keys:
            for entity in self._own.get(key, ()):
                for there in self._core.containers.at(entity.place):
                    if not there.over and there is not conn:
                        local.setdefault(there.id, RouteCandidate(there, entity, key))
        # all links of a transaction belong to the connection to which its coordinator went
        yield from sorted(local.values(), key=lambda w: (w.conn.id not in used, self._loads.get(w.conn.id, 0)))
        remote: dict[int, tuple[int, RouterConnection, str]] = {}
        for key in keys:
            address = self._core.addresses.get(key)
            targets: Iterable[Target] = () if address is None else address.targets.values()
            for target in targets:
                neighbour = target.node.neighbour()
                if neighbour is not None and neighbour.connection is not conn:
                    there = neighbour.connection
                    cost = min(target.node.cost, remote.get(there.id, (target.node.cost,))[0])
                    remote[there.id] = (cost, there, key)
        ways = remote.values()
        for _, there, key in sorted(ways, key=lambda w: (w[1].id not in used, w[0], self._loads.get(w[1].id, 0))):
            yield RouteCandidate(there, None, key)

    def _pass_on(self, way: RouteCandidate, lk: RouterLink, attach: Attach, told: str | None) -> None:
        """Attach a link of ours in place of the peer's. Raises AmqpError."""
        core = self._core
        conn: RouterConnection = lk.connection  # type: ignore[assignment]
        coordinator = attach.target is not None and attach.target.kind == "coordinator"
        session = self._mirrors.session(lk.session, way.conn)
        name = names.onward_name(conn, way.conn, attach, core.router_id)
        onward = core.open_link(session, rewriting.onward_attach(attach, name, way.entity, told))
        self._mirrors.link_opened(lk.session, session, coordinator)
        self._loads[way.conn.id] = self._loads.get(way.conn.id, 0) + 1
        terminus = attach.source if attach.role else attach.target
        onward.route = UpstreamLink(way.entity, way.key, terminus is not None and terminus.dynamic)
        if way.entity is not None:
            way.entity.links += 1
        for one, other in ((lk, onward), (onward, lk)):
            one.kind = ROUTED
            one.passing = True
            one.partner = other

    def open(self, lk: RouterLink, attach: Attach) -> RouterLink | None:
        """Attach a link of the router itself for what an anonymous sender sends; None where nothing leads there."""
        core, text = self._core, rewriting.route_address(attach)
        conn: RouterConnection = lk.connection  # type: ignore[assignment]
        keys = self._trees[False].match(text or "")
        for way in () if keys is None else self._ways(conn, lk, keys):
            try:
                session = core.containers.session(way.conn, False)
                return core.open_link(session, rewriting.onward_attach(attach, attach.name, way.entity, None))
            except AmqpError as e:
                core.log("ROUTER_CORE", "warning", f"link for anonymous senders to {text}: {e.description}")
        return None

    def answered(self, onward: RouterLink, attach: Attach) -> None:
        """The next hop answered our attach: so do we."""
        lk = onward.partner
        if lk is None:
            return
        entity = None if onward.route is None else onward.route.entity
        answer = rewriting.backward_attach(attach, lk.name, entity)
        answer.handle = lk.handle
        if lk.is_sender:
            answer.initial_delivery_count = lk.delivery_count
        if onward.route is not None and onward.route.dynamic:
            self._node_made(onward, rewriting.made_address(answer))
        if onward.route is not None and onward.route.taken:
            no_local.give_back(answer, onward.route.taken)
        lk.send_attach(answer)
        if lk.attached:
            self._core.on_credit(lk if lk.is_sender else onward)

    def lost(self, lk: RouterLink, error: ErrorInfo | None) -> None:
        """One of two links is gone: so is the other, for the same reason."""
        other = lk.partner
        self._core.part(lk)
        if lk.route is not None:
            self._node_gone(lk)
            there = lk.connection.id  # type: ignore[attr-defined]
            self._loads[there] = self._loads.get(there, 1) - 1
            if not self._loads[there]:
                del self._loads[there]
            self._mirrors.link_gone(lk.session)
            if lk.route.entity is not None:
                lk.route.entity.links -= 1
        if other is None:
            return
        closed = lk.closed
        if lk.connection.over or not lk.session.mapped:
            closed = other.route is None  # what a container keeps for the client outlives the client's connection
            if not closed:
                error = None
            elif error is None or lk.connection.over:
                error = ErrorInfo(LINK_LOST, LINK_LOST_TEXT)
        if other.state == "ATTACH_RCVD":
            other.send_attach(other.bare_answer())
            closed = True
        other.detach_with(error, closed)
        if other.route is not None and lk.answer_after(other):
            self._owing.append((self._core.now + ANSWER_S, lk))

    # ---- nodes that containers made for dynamic termini
    def _node_made(self, onward: RouterLink, address: str) -> None:
        """Links to the node go the way of the link that it was made for, as long as that is there.

        The router at the container tells the mesh, unless the address is one that is routed anyway.
        """
        if not address or address in self._made or any(word in ("*", "#") for word in split_words(address)):
            return
        entity: LinkRoute | None = None
        there: RouterConnection = onward.connection  # type: ignore[assignment]
        onward.route.made = address
        if there.role != INTER_ROUTER and not all(tree.match(address) for tree in self._trees.values()):
            entity = LinkRoute({"direction": "both", "prefix": address})
            entity.place = ("id", str(there.id))
            self._place(entity)
        self._made[address] = onward, entity

    def _node_gone(self, onward: RouterLink) -> None:
        """The link is gone, and with it the node."""
        _, entity = self._made.pop(onward.route.made, (None, None)) if onward.route.made else (None, None)
        if entity is not None:
            self._displace(entity)

    # ---- what containers offer
    def offer(self, key: str) -> ContainerCapabilities | None:
        """What the containers of this router offer to which a link route leads."""
        conns = [conn for entity in self._own.get(key, ()) for conn in self._core.containers.at(entity.place)]
        return common_capabilities([capabilities_of(conn.remote) for conn in conns if conn.remote is not None])

    def offer_for(self, address: str) -> ContainerCapabilities | None:
        """What the containers offer, of this router and of others, to which link routes for an address lead."""
        found: list[ContainerCapabilities | None] = []
        for key in {key for tree in self._trees.values() for key in tree.match(address) or ()}:
            found.append(self.offer(key))
            for router_id in self._core.addresses[key].targets:
                told = self._core.mesh.offer_of(router_id, key)
                found.append(None if told is None else read_offer(told))
        return common_capabilities([offer for offer in found if offer is not None])
