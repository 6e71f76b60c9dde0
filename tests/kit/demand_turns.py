"""Cases of long turns with demand: many consumers for which another router asks, or many addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.kit.long_turns import Case, Scene


def _asked(count: int) -> tuple[Scene, Callable[[], object]]:
    """Consumers of an address, another router, and its question."""
    scene = Scene()
    scene.receivers(count, lambda _: "q", credit=10)
    scene.core.remote_routers.node_up("B")
    return scene, lambda: scene.core.demand.arrived("B", {"address": "M0q", "waits": 1})


def _looked_at(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, ask = _asked(count)
    for turn in scene.turns(ask):
        turn()
    scene.messages(count)
    scene.core.now += 1.0
    return scene, lambda: scene.core.demand.tick(scene.core.now)


def _asker_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    scene.core.remote_routers.node_up("B")
    scene.receivers(count, "a/{}".format)
    for number in range(count):
        scene.core.demand.arrived("B", {"address": f"M0a/{number}", "waits": 1})
        scene.now_and_then(number)
    for turn in scene.turns(lambda: None):
        turn()

    def lose() -> None:
        scene.core.remote_routers.node_down("B")
        scene.core.demand.lost()

    return scene, lose


DEMAND_CASES: Final[Mapping[str, Case]] = {
    "demand-asked": Case("another router asks for an address; its consumers", _asked),
    "demand-tick": Case("deliveries wait for consumers that are held back; their number", _looked_at),
    "demand-lost": Case("a router that asked is lost; addresses for which it did", _asker_lost),
}
