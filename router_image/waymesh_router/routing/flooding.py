"""Forwards link states from neighbour to neighbour.

Routers of Dispatch flood an RA along shortest paths and request the link state of each router that has a new one. Both
need correct paths everywhere, but a change of links breaks them: the request or its answer is lost at a router that
does not know about the change yet. Therefore each router forwards a new link state to its neighbours over all links,
before the RA: it arrives wherever any path exists, and no router has to request it. The message is the LSU of the
protocol with the id of the router that it describes, which routers of Dispatch accept as if that router had sent it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from waymesh_router.routing.effects import SUFFIX_CONTROL, Body, SendTo
from waymesh_router.routing.messages import link_state_body, link_state_more
from waymesh_router.routing.nodes import Node
from waymesh_router.routing.settings import RoutingSettings


class LinkStateFlood:
    """For each neighbour, the ids of the routers whose link states must still be sent to it."""

    def __init__(self, settings: RoutingSettings) -> None:
        self._settings = settings
        self._waiting: dict[str, dict[str, None]] = {}

    def add(self, router_id: str, neighbours: Iterable[str]) -> None:
        """This router has a new link state; forward it to these neighbours."""
        for neighbour in sorted(neighbours):
            if neighbour != router_id:
                self._waiting.setdefault(neighbour, {})[router_id] = None

    def add_all(self, router_ids: Iterable[str], neighbour: str) -> None:
        """A neighbour became reachable: it may know none of these link states."""
        for router_id in router_ids:
            self.add(router_id, [neighbour])

    def retain(self, neighbours: Iterable[str]) -> None:
        """Drop the queues of all neighbours except these."""
        kept = set(neighbours)
        for neighbour in [neighbour for neighbour in self._waiting if neighbour not in kept]:
            del self._waiting[neighbour]

    def flush(self, nodes: Mapping[str, Node], own_state: Callable[[], Body]) -> list[SendTo]:
        """Messages for all reachable neighbours; the others wait until they are reachable."""
        if not self._waiting:
            return []
        out = []
        bodies: dict[str, Body] = {}  # one object for all neighbours: it is encoded once
        for neighbour in [neighbour for neighbour in self._waiting if nodes[neighbour].up]:
            for router_id in self._waiting.pop(neighbour):
                if router_id not in bodies:
                    if router_id == self._settings.router_id:
                        bodies[router_id] = own_state()
                    elif (node := nodes.get(router_id)) is not None and node.ls_seq.known:
                        bodies[router_id] = self._body(node)
                    else:
                        continue
                out.append(SendTo(neighbour, "LSU", bodies[router_id], SUFFIX_CONTROL))
        return out

    def _body(self, node: Node) -> Body:
        seq, mobile_seq = node.ls_seq.known, node.mobile_seq.known
        empty_seq = mobile_seq if mobile_seq and not node.mobiles else None
        more = link_state_more(empty_seq, node.demand)
        return link_state_body(node.id, self._settings.area, node.instance or 0, seq, node.peers, more)
