"""Records of other routers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from waymesh_router.routing.sequences import OVERTAKEN_S, Sequence


@dataclass(frozen=True, slots=True)
class NodeView:
    """A reachable router for management (entity `router.node`). Times are those of the caller's clock."""

    id: str
    cost: int
    next_hop: str | None
    """None for a neighbour reached directly."""
    link_id: int | None
    valid_origins: Set[str]
    instance: int | None
    link_state: Mapping[str, int]
    """Costs of its links to its peers, by their ids."""
    last_topo_change: float
    protocol_version: int | None
    mobile_seq: int
    index: int


class Node:
    """Record of another router. If the router is unreachable, it is kept until its link state expires, so that after a
    partition of the mesh not everything must be exchanged again.
    """

    __slots__ = (
        "changed_at",
        "cost",
        "demand",
        "former",
        "former_since",
        "id",
        "index",
        "instance",
        "last_seen",
        "link_id",
        "ls_seq",
        "mobile_seq",
        "mobiles",
        "next_hop",
        "offers",
        "origins",
        "peers",
        "sighting",
        "up",
        "version",
    )

    def __init__(self, router_id: str, now: float) -> None:
        self.id = router_id
        self.last_seen = now
        self.changed_at = now
        self.instance: int | None = None
        self.version: int | None = None
        # The instance in its last message, the previous instance, and the time at which the previous one was replaced.
        self.sighting: int | None = None
        self.former: int | None = None
        self.former_since = now
        # Its announced state.
        self.ls_seq = Sequence()
        self.peers: dict[str, int] = {}
        self.demand = False
        self.mobile_seq = Sequence()
        self.mobiles: dict[str, int] = {}
        self.offers: dict[str, Mapping[str, object]] = {}
        # The state that was passed to the core.
        self.up = False
        self.index = 0
        self.link_id: int | None = None
        self.cost = 0
        self.next_hop: str | None = None
        self.origins: Set[str] = frozenset()

    def record_instance(self, instance: int, now: float) -> bool:
        """Record the instance of a message. Returns whether a former instance is back: then two routers have this id.

        A message of a former instance shortly after the change has only arrived late.
        """
        if instance == self.sighting:
            return False
        back = instance == self.former
        if back and now - self.former_since < OVERTAKEN_S:
            return False
        self.sighting, self.former, self.former_since = instance, self.sighting, now
        return back

    def forget(self) -> None:
        """Drop its announced state, because it restarted."""
        self.ls_seq = Sequence()
        self.peers = {}
        self.mobile_seq = Sequence()
        self.mobiles = {}
        self.offers = {}

    def view(self) -> NodeView:
        """Frozen copy for management."""
        return NodeView(
            id=self.id,
            cost=self.cost,
            next_hop=self.next_hop,
            link_id=self.link_id,
            valid_origins=self.origins,
            instance=self.instance,
            link_state=dict(self.peers),
            last_topo_change=self.changed_at,
            protocol_version=self.version,
            mobile_seq=self.mobile_seq.known,
            index=self.index,
        )


class ReachableNodes(Mapping[str, NodeView]):
    """Live read-only view of the reachable routers by id; creates a `NodeView` on access."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes

    def __getitem__(self, router_id: str) -> NodeView:
        node = self._nodes[router_id]
        if not node.up:
            raise KeyError(router_id)
        return node.view()

    def __iter__(self) -> Iterator[str]:
        return (node.id for node in self._nodes.values() if node.up)

    def __len__(self) -> int:
        return sum(node.up for node in self._nodes.values())
