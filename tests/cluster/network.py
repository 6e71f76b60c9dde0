"""The addresses of a cluster: several clusters and their nodes beside each other, none in the way of another.

Node 1 is linked to the machine, each further node to node 1, which forwards: there is nothing to take away again but
one link, and it goes with node 1's namespace.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

MAX_CLUSTERS = 60
MAX_NODES = 5


@dataclass(frozen=True, slots=True)
class Network:
    """What cluster number `index` uses."""

    index: int

    @property
    def link(self) -> str:
        """The machine's end of the link to node 1."""
        return f"waymesh{self.index}"

    @property
    def services(self) -> str:
        """The range of Service addresses."""
        return f"10.96.{4 * self.index}.0/22"

    @property
    def api_service(self) -> str:
        """The address of the Service `kubernetes`, the first of the range."""
        return f"10.96.{4 * self.index}.1"

    def gateway(self, number: int) -> str:
        """Where node `number` (1, 2 …) sends what is not local."""
        return f"10.89.{self.index}.{4 * number - 3}"

    def node(self, number: int) -> str:
        """The address of node `number`."""
        return f"10.89.{self.index}.{4 * number - 2}"

    def pods(self, number: int) -> str:
        """The range of pod addresses of node `number`."""
        return f"10.{100 + number}.{self.index}.0/24"


def free_network(taken: Collection[int]) -> Network:
    """A number that is not taken by a cluster that we know of, nor seen on this machine."""
    for index in range(MAX_CLUSTERS):
        candidate = Network(index)
        if index not in taken and not Path("/sys/class/net", candidate.link).exists():
            return candidate
    raise RuntimeError(f"{MAX_CLUSTERS} test clusters are up")
