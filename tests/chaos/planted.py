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


def _nth() -> Callable[[], bool]:
    """A function that is true once in EVERY calls."""
    calls = 0

    def wrong() -> bool:
        nonlocal calls
        calls += 1
        return calls % EVERY == 0

    return wrong


def _lost_outcome() -> None:
    """Some outcomes are not told to the producer."""
    from waymesh_router.core.settlement.settlement import Settlement

    told: Any = Settlement.settle_incoming
    wrong = _nth()

    def settle_incoming(self: Settlement, d: Any, state: bytes) -> None:
        if not wrong():
            told(self, d, state)

    Settlement.settle_incoming = settle_incoming  # type: ignore[method-assign]


def _sent_twice() -> None:
    """Some pre-settled messages are sent twice."""
    from waymesh_router.core.forwarding import forwarder

    send: Any = forwarder.send_scanned  # type: ignore[attr-defined]
    wrong = _nth()

    def send_scanned(lk: Any, out: Any, settled: bool, *rest: Any) -> int:
        if settled and out.credit > 1 and not rest[-1].more and wrong():
            send(lk, out, settled, *rest)
        return int(send(lk, out, settled, *rest))

    forwarder.send_scanned = send_scanned  # type: ignore[attr-defined]


def _lost_credit() -> None:
    """No credit is renewed."""
    from waymesh_router.core.model import RouterLink

    RouterLink.return_credit = lambda _: None  # type: ignore[method-assign, assignment]


DEFECTS = {
    "lost-outcome": _lost_outcome,
    "sent-twice": _sent_twice,
    "lost-credit": _lost_credit,
}


def words(defect: str) -> list[str]:
    """What stands before the command of a router (`within` of RouterProcess) so that it has the defect; its own
    command is then not used."""
    return [sys.executable, "-m", "tests.chaos.planted", defect]


def main() -> int:
    """Be a router with a defect."""
    os.environ["WAYMESH_ENGINE"] = "interpreted"
    DEFECTS[sys.argv[1]]()
    from waymesh_router.runtime.main import main as run

    sys.argv[1:] = sys.argv[sys.argv.index("-c") :]
    return run()


if __name__ == "__main__":
    sys.exit(main())
