"""Routers with a defect, which runs must find: `python -m tests.chaos.planted DEFECT … -c FILE` starts one.

The engine is the interpreted one, whose methods can be replaced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

EVERY = 5
"""One of so many calls goes wrong."""
Replacement = tuple[Any, str, Any]
"""What is replaced: a class or module, the name of its function, and the defective one."""
RELEASED_CODE = 0x26
ACCEPTED = b"\x00\x53\x24\x45"


def _nth(every: int = EVERY) -> Callable[[], bool]:
    """A function that is true once in so many calls."""
    calls = 0

    def wrong() -> bool:
        nonlocal calls
        calls += 1
        return calls % every == 0

    return wrong


def _lost_outcome() -> Replacement:
    """Some outcomes are not told to the producer."""
    from waymesh_router.core.settlement.settlement import Settlement

    told: Any = Settlement.settle_incoming
    wrong = _nth()

    def settle_incoming(self: Settlement, d: Any, state: bytes) -> None:
        if not wrong():
            told(self, d, state)

    return Settlement, "settle_incoming", settle_incoming


def _wrong_outcome() -> Replacement:
    """Producers are told that a message was accepted which a consumer released."""
    from waymesh_router.core.settlement.settlement import Settlement

    told: Any = Settlement.settle_incoming

    def settle_incoming(self: Settlement, d: Any, state: bytes) -> None:
        told(self, d, ACCEPTED if len(state) > 2 and state[2] == RELEASED_CODE else state)

    return Settlement, "settle_incoming", settle_incoming


def _sent_twice() -> Replacement:
    """Some pre-settled messages are sent twice."""
    from waymesh_router.core.forwarding import forwarder

    send: Any = forwarder.send_scanned  # type: ignore[attr-defined]
    wrong = _nth()

    def send_scanned(lk: Any, out: Any, settled: bool, *rest: Any) -> int:
        if settled and out.credit > 1 and not rest[-1].more and wrong():
            send(lk, out, settled, *rest)
        return int(send(lk, out, settled, *rest))

    return forwarder, "send_scanned", send_scanned


def _dropped() -> Replacement:
    """Some pre-settled messages are not sent."""
    from waymesh_router.core.forwarding import forwarder

    send: Any = forwarder.send_scanned  # type: ignore[attr-defined]
    wrong = _nth()

    def send_scanned(lk: Any, out: Any, settled: bool, *rest: Any) -> int:
        if settled and not rest[-1].more and wrong():
            return 0
        return int(send(lk, out, settled, *rest))

    return forwarder, "send_scanned", send_scanned


def _lost_credit() -> Replacement:
    """No credit is renewed."""
    from waymesh_router.core.model import RouterLink

    return RouterLink, "return_credit", lambda _: None


def _hole() -> Replacement:
    """Some multicast messages do not go to one of the consumers."""
    from waymesh_router.core.forwarding.choice import ConsumerChoice

    all_links: Any = ConsumerChoice.all_links
    wrong = _nth()

    def too_few(self: ConsumerChoice, *rest: Any) -> list[Any]:
        links: list[Any] = all_links(self, *rest)
        return links[:-1] if wrong() else links

    return ConsumerChoice, "all_links", too_few


def _wrong_address() -> Replacement:
    """Some messages go to a consumer of another address."""
    from waymesh_router.core.forwarding.choice import ConsumerChoice

    pick: Any = ConsumerChoice.pick
    wrong = _nth()
    seen: dict[str, Any] = {}

    def pick_wrong(self: ConsumerChoice, address: Any, annotations: Any) -> Any:
        other = next((one for key, one in seen.items() if key != address.key and one.consumers), None)
        if address.key.startswith("M") and not address.key.startswith("M0$"):
            seen[address.key] = address
            if other is not None and wrong():
                return pick(self, other, annotations)
        return pick(self, address, annotations)

    return ConsumerChoice, "pick", pick_wrong


def _forgotten_consumer() -> Replacement:
    """Nobody is told of deliveries whose consumer is lost."""
    from waymesh_router.core.settlement.interruptions import Interruptions

    return Interruptions, "consumer_lost", lambda *_: None


def _damaged() -> Replacement:
    """Some frames in the middle of a message are left out."""
    from waymesh_router.core.forwarding.outflow import Outflow

    on_frame: Any = Outflow.on_frame
    wrong = _nth(2)

    def skip(self: Outflow, lk: Any, transfer: Any) -> None:
        if not transfer.more or not wrong():
            on_frame(self, lk, transfer)

    return Outflow, "on_frame", skip


def _overtaking() -> Replacement:
    """Of the messages that wait, the newest is sent first."""
    from waymesh_router.core.forwarding.pending_queue import PendingGroup

    def newest(self: PendingGroup) -> Any:
        return next(item for item in reversed(self.items) if item is not None)

    return PendingGroup, "first", newest


DEFECTS: dict[str, Callable[[], Replacement]] = {
    "lost-outcome": _lost_outcome,
    "wrong-outcome": _wrong_outcome,
    "sent-twice": _sent_twice,
    "dropped": _dropped,
    "lost-credit": _lost_credit,
    "hole": _hole,
    "wrong-address": _wrong_address,
    "forgotten-consumer": _forgotten_consumer,
    "damaged": _damaged,
    "overtaking": _overtaking,
}
_STUCK = frozenset({"waiting", "hole", "loss", "stall", "recovery"})
FOUND_BY = {
    "lost-outcome": _STUCK,
    "wrong-outcome": frozenset({"outcome"}),
    "sent-twice": frozenset({"duplicate"}),
    "dropped": frozenset({"loss"}),
    "lost-credit": _STUCK,
    "hole": frozenset({"hole"}),
    "wrong-address": frozenset({"stranger"}),
    "forgotten-consumer": _STUCK,
    "damaged": frozenset({"phantom"}),
    "overtaking": frozenset({"order"}),
}
"""The violations of which one shows that a defect was found."""


def words(defect: str) -> list[str]:
    """What stands before the command of a router (`within` of RouterProcess) so that it has the defect; its own
    command is then not used."""
    return [sys.executable, "-m", "tests.chaos.planted", defect]


def main() -> int:
    """Be a router with a defect."""
    os.environ["WAYMESH_ENGINE"] = "interpreted"
    owner, name, replacement = DEFECTS[sys.argv[1]]()
    setattr(owner, name, replacement)
    from waymesh_router.runtime.main import main as run

    sys.argv[1:] = sys.argv[sys.argv.index("-c") :]
    return run()


if __name__ == "__main__":
    sys.exit(main())
