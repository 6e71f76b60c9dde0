"""What it costs to select the way of a message where many routers have consumers of its address.

`python -m tests.bench.remote_choices [ROUTERS ...]` measures in its own process, with the engine that WAYMESH_ENGINE
names: one router's core with two neighbours, and so many routers with consumers behind these. It prints nanoseconds of
CPU a message, of all that the core does with it; what the number of routers adds is the choice. Each figure is the
least of many rounds, in turns.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.pump import Peer, core_hub, core_of
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_kinds import BALANCED, MULTICAST

ROUTERS: Final = (2, 3, 5, 20, 100)
BATCH: Final = 50
"""Messages that are sent together; unsettled ones are settled then."""
BATCHES: Final = 20
ROUNDS: Final = 25
MUCH: Final = 10_000_000
DATA_LINK: Final = 2
"""The handle on which a neighbour receives messages; it sends on the next one."""


class Router:
    """A core with consumers of `q` at so many routers. `settled`: messages are pre-settled; None: each other one.
    `ranked`: the routers tell priorities of their consumers. `ingresses`: messages come from a third neighbour, by
    turns of so many routers."""

    def __init__(
        self, count: int, treatment: int, settled: bool | None = True, ranked: bool = False, ingresses: int = 0
    ) -> None:
        self.hub = core_hub()
        self.ways = [self._neighbour(name) for name in ("B", "C")]
        self._given = 0
        core = core_of(self.hub)
        entries = [f"in{number}" for number in range(ingresses)]
        for number in range(count):
            router_id = f"far{number}"
            core.remote_routers.node_up(router_id)
            node = core.nodes[router_id]
            node.next_hop, node.cost = core.nodes["BC"[number % 2]], 2 + number % 3
            node.valid_origins = frozenset(entries)
            core.remote_routers.add_consumers(router_id, "M0q", treatment)
        address: Any = core.addresses["M0q"]
        if ranked:
            address.ranked = address.prioritized = True
            for target in address.targets.values():
                target.ranks = ((5, 0), (1, MUCH))
        self.settled = settled
        self.source, handle = self._neighbour("S") if entries else self._producer(), (DATA_LINK + 1) * bool(entries)
        bodies = [_from_mesh(name) for name in entries] or [frames.message()]
        modes = (True, False) if settled is None else (settled, settled)
        self.batch = b"".join(
            frames.transfer(number, bodies[number % len(bodies)], handle=handle, settled=modes[number % 2])
            for number in range(BATCH)
        )

    def _neighbour(self, router_id: str) -> Peer:
        peer = neighbour(self.hub, router_id)
        peer.end.on_bytes = _drop
        peer.send(frames.credit(MUCH, DATA_LINK, incoming_window=MUCH))
        return peer

    def _producer(self) -> Peer:
        peer = self.hub.peer().open().begin()
        peer.send(frames.attach_sender())
        peer.end.on_bytes = _drop
        return peer

    def run(self, batches: int) -> float:
        """Nanoseconds of CPU a message."""
        clock, feed, turn = time.process_time_ns, self.source.end.feed, self.hub.turn
        began = clock()
        for _ in range(batches):
            feed(self.batch)
            turn()
            if not self.settled:
                for way in self.ways:
                    way.end.feed(_SETTLE_ALL)
                turn()
        return (clock() - began) / (batches * BATCH)


_SETTLE_ALL: Final = frames.disposition(0, last=MUCH)


def _drop(data: bytes) -> None:
    pass


def _from_mesh(ingress: str) -> bytes:
    notes = {
        Symbol("x-opt-qd.ingress"): f"0/{ingress}",
        Symbol("x-opt-qd.trace"): [f"0/{ingress}", "0/S"],
        Symbol("x-opt-qd.to"): "q",
    }
    return encode_message(Message(message_annotations=notes, body="x"))


CASES: Final[dict[str, Callable[[int], Router]]] = {
    "balanced, pre-settled": lambda count: Router(count, BALANCED),
    "balanced, unsettled": lambda count: Router(count, BALANCED, settled=False),
    "balanced, both in turn": lambda count: Router(count, BALANCED, settled=None),
    "priorities, pre-settled": lambda count: Router(count, BALANCED, ranked=True),
    "priorities, unsettled": lambda count: Router(count, BALANCED, settled=False, ranked=True),
    "balanced, in transit": lambda count: Router(count, BALANCED, ingresses=1),
    "multicast, entering": lambda count: Router(count, MULTICAST),
    "multicast, in transit": lambda count: Router(count, MULTICAST, ingresses=1),
    "multicast, in transit of 10": lambda count: Router(count, MULTICAST, ingresses=10),
}


def measured(make: Callable[[int], Router], counts: Sequence[int], rounds: int = ROUNDS) -> list[float]:
    """Nanoseconds of CPU a message, for each number of routers."""
    routers = [make(count) for count in counts]
    gc.collect()
    gc.disable()
    try:
        for router in routers:
            router.run(BATCHES)
        found = [[router.run(BATCHES) for router in routers] for _ in range(rounds)]
    finally:
        gc.enable()
    return [min(column) for column in zip(*found, strict=True)]


def main() -> None:
    """Prints a table."""
    counts = [int(word) for word in sys.argv[1:]] or ROUTERS
    print(f"{'routers with consumers':32}" + "".join(f"{count:>9}" for count in counts))
    for name, make in CASES.items():
        print(f"{name:32}" + "".join(f"{ns:9.0f}" for ns in measured(make, counts)), flush=True)


if __name__ == "__main__":
    main()
