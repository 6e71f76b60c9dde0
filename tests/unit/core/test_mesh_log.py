"""Lines about the control plane: only of levels that are on, and never long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from waymesh_router.log.mesh_log import MAX_ITEMS, MeshLog
from waymesh_router.routing.effects import Effect, MobileAdd, MobileDel, MobileFlush, SendAll, SendHello, SendTo

pytestmark = pytest.mark.engine_independent


class Unread(Mapping[str, Any]):
    """A body that nobody may read."""

    def __getitem__(self, key: str) -> Any:
        raise AssertionError(key)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError


def made(*on: tuple[str, str]) -> tuple[MeshLog, list[str]]:
    """A log with only these modules and levels on, and its lines."""
    lines: list[str] = []
    log = MeshLog(lambda *line: lines.append(" ".join(line)), lambda module, level: (module, level) in on)
    return log, lines


EFFECTS: list[Effect] = [
    SendHello(1, {"id": "A"}),
    SendTo("B", "LSR", {"id": "A"}, ""),
    SendAll("MAU", {"id": "A"}, ""),
    MobileAdd("B", "M0x", 0),
    MobileDel("B", "M0y"),
    MobileFlush("B"),
]


def test_no_text_is_composed_for_levels_that_are_off() -> None:
    log, lines = made()
    log.received(1, "HELLO", Unread())
    log.report([SendHello(1, Unread()), SendAll("MAU", Unread(), "")])
    log.report(EFFECTS)
    assert lines == []


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (("ROUTER_HELLO", "trace"), ["ROUTER_HELLO trace [C1] SENT: HELLO(id=A)"]),
        (("ROUTER_LS", "trace"), ["ROUTER_LS trace to B SENT: LSR(id=A)"]),
        (("ROUTER_MA", "trace"), ["ROUTER_MA trace to all SENT: MAU(id=A)"]),
        (
            ("ROUTER_MA", "debug"),
            [
                "ROUTER_MA debug Address M0x of router B added",
                "ROUTER_MA debug Address M0y of router B removed",
                "ROUTER_MA debug All addresses of router B removed",
            ],
        ),
    ],
)
def test_each_module_has_its_own_lines(on: tuple[str, str], expected: list[str]) -> None:
    log, lines = made(on)
    log.report(EFFECTS)
    assert lines == expected


def test_long_tables_are_cut() -> None:
    log, lines = made(("ROUTER_MA", "trace"))
    log.received(3, "MAU", {"id": "B", "exist": [f"M0a{n}" for n in range(100_000)]})
    assert lines[0].startswith("ROUTER_MA trace [C3] RCVD: MAU(id=B exist=[M0a0, M0a1, ")
    assert lines[0].endswith(f"M0a99, {100_000 - MAX_ITEMS} more])")


def test_messages_of_unknown_kinds_and_contents_do_no_harm() -> None:
    log, lines = made(("ROUTER_HELLO", "trace"))
    log.received(1, "NONSENSE", {"a": 1})
    log.received(1, "HELLO", {None: b"\xff", 1: {"x": [None, 2.5]}})
    assert lines == ["ROUTER_HELLO trace [C1] RCVD: HELLO(None=b'\\xff' 1={x: [None, 2.5]})"]
