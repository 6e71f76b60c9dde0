"""Link states on their way from neighbour to neighbour.

Routers of Dispatch flood an RA along shortest paths and ask each router for its link state when it has a new one. Both
need paths that are right everywhere, which is what a change of links breaks: the question or its answer gets lost at
a router that has not heard of the change. Therefore each router passes a new link state on to its neighbours over all
links, ahead of the RA: it arrives wherever there is a way at all, and nobody has to ask. The message is the LSU of the
protocol with the id of the router that it describes, which routers of Dispatch take as if that router had sent it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from waymesh_router.routing.effects import SUFFIX_CONTROL, Body, SendTo
from waymesh_router.routing.messages import link_state_body
from waymesh_router.routing.nodes import Node
from waymesh_router.routing.settings import RoutingSettings


class LinkStateFlood:
    """For each neighbour the ids of the routers whose link states it is still to be sent."""

    def __init__(self, settings: RoutingSettings) -> None:
        self._settings = settings
        self._waiting: dict[str, dict[str, None]] = {}

    def add(self, router_id: str, neighbours: Iterable[str]) -> None:
        """There is a new link state of this router; pass it on to these neighbours."""
        for neighbour in sorted(neighbours):
            if neighbour != router_id:
                self._waiting.setdefault(neighbour, {})[router_id] = None

    def add_all(self, router_ids: Iterable[str], neighbour: str) -> None:
        """A neighbour became reachable: it may know none of these link states."""
        for router_id in router_ids:
            self.add(router_id, [neighbour])

    def retain(self, neighbours: Iterable[str]) -> None:
        """Drop what waits for others than these."""
        kept = set(neighbours)
        for neighbour in [neighbour for neighbour in self._waiting if neighbour not in kept]:
            del self._waiting[neighbour]

    def flush(self, nodes: Mapping[str, Node], own_state: Callable[[], Body]) -> list[SendTo]:
        """Messages for all neighbours that can be reached; the rest waits until they can."""
        out = []
        for neighbour in [neighbour for neighbour in self._waiting if nodes[neighbour].up]:
            for router_id in self._waiting.pop(neighbour):
                if router_id == self._settings.router_id:
                    out.append(SendTo(neighbour, "LSU", own_state(), SUFFIX_CONTROL))
                elif (node := nodes.get(router_id)) is not None and node.ls_seq:
                    out.append(SendTo(neighbour, "LSU", self._body(node), SUFFIX_CONTROL))
        return out

    def _body(self, node: Node) -> Body:
        return link_state_body(node.id, self._settings.area, node.instance or 0, node.ls_seq, node.peers)
