"""Two routers with the same id: decides which of them may use it, and refuses the other.

A HELLO with a known id and another instance comes from a router that has started again, or from another router with the
same id. If the known instance is reachable, the newcomer waits: it is accepted if the known one sends nothing for
helloInterval, or becomes unreachable. If the known one sends something, the newcomer is refused.
Source: docs/protocol/inter-router.md, "Routers with the same id".
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from waymesh_router.routing.effects import Effect, LogEvent, RefuseRouter
from waymesh_router.routing.messages import Hello, Lsu, Ra
from waymesh_router.routing.neighbours import Neighbours
from waymesh_router.routing.nodes import Node
from waymesh_router.routing.requests import Kind, Requests
from waymesh_router.routing.sequences import OVERTAKEN_S
from waymesh_router.routing.settings import RoutingSettings

# Fraction of helloInterval in which messages may arrive that a router sent before it was killed: they do not show that
# it is alive. After this time, its link state is requested.
LEFT_OVER = 0.25
# Maximum number of pairs of instances that are logged; each pair is stored, so that it is logged once.
MAX_PAIRS = 1000


class _Claim:
    """A newcomer that waits, with its last HELLO."""

    __slots__ = ("asked", "hello", "since")

    def __init__(self, hello: Hello, now: float) -> None:
        self.hello = hello
        self.since = now
        self.asked = False


class Claims:
    """Newcomers whose id is that of a reachable router. `wake` is the time of the next `admit`."""

    def __init__(
        self,
        settings: RoutingSettings,
        neighbours: Neighbours,
        nodes: Mapping[str, Node],
        requests: Requests,
        now: float,
    ) -> None:
        self.wake = math.inf
        self._settings = settings
        self._neighbours = neighbours
        self._nodes = nodes
        self._requests = requests
        self._started = now
        self._claims: dict[int, _Claim] = {}
        self._warned: set[tuple[str, frozenset[int]]] = set()

    def delays(self, link_id: int, hello: Hello, now: float, out: list[Effect]) -> bool:
        """Whether a HELLO must be ignored; `admit` may accept it later."""
        if not self._neighbours.has(link_id):
            return False
        if hello.id == self._settings.router_id:
            if hello.instance != self._settings.instance:
                self._refuse(link_id, hello, self._settings.instance, out)
            return True
        if self._rival(link_id, hello) is None:
            self._claims.pop(link_id, None)
            self._alive(hello, now, out)
            return False
        claim = self._claims.get(link_id)
        if claim is None or (claim.hello.id, claim.hello.instance) != (hello.id, hello.instance):
            claim = self._claims[link_id] = _Claim(hello, now)
        claim.hello = hello
        self.wake = min(self.wake, self._next(link_id, claim))
        return True

    def is_from_rival(self, message: Ra | Lsu, now: float, out: list[Effect]) -> bool:
        """Whether a message comes from another router than the neighbour with the same id."""
        if message.id == self._settings.router_id:
            if message.instance != self._settings.instance and now - self._started >= OVERTAKEN_S:
                self._warn(message.id, self._settings.instance, message.instance, out)
            return True
        self._alive(message, now, out)
        instance = self._neighbours.instance(message.id)
        return instance is not None and instance != message.instance

    def admit(self, now: float) -> list[tuple[int, Hello]]:
        """Returns the HELLOs, with their links, that are accepted now, because the known instances are silent."""
        late = now - self.wake
        admitted = []
        for link_id, claim in list(self._claims.items()):
            if late > self._settings.hello_interval_s:
                claim.since += late  # this process was stopped; messages of the known instance wait in a socket
            if not self._neighbours.has(link_id):
                del self._claims[link_id]
            elif self._rival(link_id, claim.hello) is None or now >= self._silent_at(link_id, claim):
                del self._claims[link_id]
                admitted.append((link_id, claim.hello))
            elif not claim.asked and now >= self._next(link_id, claim):
                claim.asked = True
                self._requests.want(claim.hello.id, Kind.LSR, now)
        self.wake = min((self._next(link_id, claim) for link_id, claim in self._claims.items()), default=math.inf)
        return admitted

    def _rival(self, link_id: int, hello: Hello) -> int | None:
        """The other instance that has the id of this HELLO; None if there is none that can be reached."""
        instance = self._neighbours.other_instance(link_id, hello)
        if instance is not None or self._neighbours.peer(link_id) == hello.id:
            return instance
        node = self._nodes.get(hello.id)
        return None if node is None or not node.up or node.instance == hello.instance else node.instance

    def _silent_at(self, link_id: int, claim: _Claim) -> float:
        """The time at which the known instance counts as silent, if nothing arrives from it until then."""
        heard = self._neighbours.last_heard(claim.hello.id, link_id)
        return max(claim.since, heard) + self._settings.hello_interval_s

    def _next(self, link_id: int, claim: _Claim) -> float:
        return self._silent_at(link_id, claim) if claim.asked else claim.since + self._left_over()

    def _left_over(self) -> float:
        return self._settings.hello_interval_s * LEFT_OVER

    def _alive(self, message: Hello | Ra | Lsu, now: float, out: list[Effect]) -> None:
        """A message of a router has arrived: refuse newcomers with its id and another instance."""
        for link_id, claim in list(self._claims.items()):
            newcomer = claim.hello
            if newcomer.id == message.id and newcomer.instance != message.instance and claim.asked:
                del self._claims[link_id]
                self._refuse(link_id, newcomer, message.instance, out)
        node = self._nodes.get(message.id)
        if node is not None and node.record_instance(message.instance, now):
            self._warn(message.id, message.instance, node.former, out)

    def _refuse(self, link_id: int, newcomer: Hello, known: int, out: list[Effect]) -> None:
        out.append(RefuseRouter(link_id, newcomer.id, newcomer.instance, known))

    def _warn(self, router_id: str, instance: int, other: int | None, out: list[Effect]) -> None:
        pair = router_id, frozenset((instance, other or 0))
        if pair not in self._warned and len(self._warned) < MAX_PAIRS:
            self._warned.add(pair)
            text = f"Two routers of the mesh have the id {router_id} (instances {instance} and {other}): change one"
            out.append(LogEvent("critical", "ROUTER_LS", text))
