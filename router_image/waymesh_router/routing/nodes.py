"""What is known of another router."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeView:
    """A reachable router as management shows it (entity `router.node`). Times are those of the caller's clock."""

    id: str
    cost: int
    next_hop: str | None
    """None for a neighbour reached by its own link."""
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
    """Record of another router. It outlives the path to it until its link state is too old, so that a mesh that
    was parted and heals need not tell everything anew.
    """

    __slots__ = (
        "changed_at",
        "cost",
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
        "ra_ls_seq",
        "ra_mobile_seq",
        "up",
        "version",
    )

    def __init__(self, router_id: str, now: float) -> None:
        self.id = router_id
        self.last_seen = now
        self.changed_at = now
        self.instance: int | None = None
        self.version: int | None = None
        # What it told. A sequence of 0 means that nothing was told yet.
        self.ls_seq = 0
        self.peers: dict[str, int] = {}
        self.mobile_seq = 0
        self.mobiles: dict[str, int] = {}
        self.offers: dict[str, Mapping[str, object]] = {}
        # What it said last that it has to tell; None: it has not said.
        self.ra_ls_seq: int | None = None
        self.ra_mobile_seq: int | None = None
        # What the core was told of it.
        self.up = False
        self.index = 0
        self.link_id: int | None = None
        self.cost = 0
        self.next_hop: str | None = None
        self.origins: Set[str] = frozenset()

    def forget(self) -> None:
        """Forget what it told: it restarted."""
        self.ls_seq = 0
        self.peers = {}
        self.mobile_seq = 0
        self.mobiles = {}
        self.offers = {}
        self.ra_ls_seq = None
        self.ra_mobile_seq = None

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
            mobile_seq=self.mobile_seq,
            index=self.index,
        )


class ReachableNodes(Mapping[str, NodeView]):
    """Live read-only view of the reachable routers by id; a `NodeView` is made when it is asked for."""

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
