"""Ports for local routers.

A listener has the manifest's port on router 0 and the next ones on the others, where they are free. Ports that nobody
chose come from below the range of the system's outgoing connections, so that none of those sits on them when a router
restarts. What was chosen once is kept.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Mapping, MutableMapping

from waymesh_operator.cluster.mesh import Place, router_id
from waymesh_operator.errors import LocalError
from waymesh_operator.resources.model import Router

LOOPBACK = "127.0.0.1"
FIRST, LAST = 20000, 32000
TRIES = 2000

Saved = MutableMapping[str, dict[str, list[int]]]
"""Router id → purpose → [port wanted (0: any), port chosen]."""


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a listener could have this port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


class PortTable:
    """The ports of one mesh. `saved` is changed in place and outlives the process in the state file."""

    def __init__(self, saved: Saved, *, any_port: bool = False, free: Callable[[int], bool] = is_free) -> None:
        self._saved = saved
        self._any_port = any_port
        self._free = free

    @property
    def chosen(self) -> set[int]:
        """All ports of the mesh."""
        return {pair[1] for purposes in self._saved.values() for pair in purposes.values()}

    def places(self, router: Router, running: Mapping[str, object]) -> list[Place]:
        """A Place for each ordinal. Ports of `running` routers are theirs; others are only kept if they are free."""
        declared = {listener.port for listener in router.listeners}
        return [self._place(router, ordinal, declared, running) for ordinal in range(router.size)]

    def _place(self, router: Router, ordinal: int, declared: set[int], running: Mapping[str, object]) -> Place:
        own_id = router_id(router.ref, ordinal)
        wanted = {"mesh": 0, "management": 0}
        for listener in router.listeners:
            port = listener.port + ordinal
            taken = self._any_port or (ordinal > 0 and port in declared) or port > 65535
            wanted[f"listener/{listener.name}"] = 0 if taken else port
        old = self._saved.get(own_id, {})
        mine = self._saved[own_id] = {purpose: old[purpose] for purpose in wanted if purpose in old}
        for purpose, port in wanted.items():
            kept = mine.get(purpose)
            if kept and kept[0] == port and own_id in running:
                continue
            mine.pop(purpose, None)
            mine[purpose] = [port, self._choose(port, kept[1] if kept else 0)]
        chosen = {purpose: pair[1] for purpose, pair in mine.items()}
        clients = {listener.name: chosen[f"listener/{listener.name}"] for listener in router.listeners}
        return Place(LOOPBACK, LOOPBACK, chosen["mesh"], chosen["management"], clients)

    def _choose(self, wanted: int, former: int) -> int:
        used = self.chosen
        for port in (wanted, former):
            if port and port not in used and self._free(port):
                return port
        for _ in range(TRIES):
            port = random.randint(FIRST, LAST)
            if port not in used and self._free(port):
                return port
        raise LocalError(f"no free port between {FIRST} and {LAST}")
