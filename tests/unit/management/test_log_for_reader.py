"""What clients that may only read see of the log: no reply address, by which its client could be sent replies."""

from __future__ import annotations

import random
import re

import pytest

from waymesh_router.core.attaching import random_text
from waymesh_router.management.reader_view import log_for_reader

pytestmark = pytest.mark.engine_independent

GENERATED = [f"Ltemp.{random_text(random.Random(seed))}" for seed in range(20)]
"""Addresses as routers make them."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Link attached: dir=out name=l0 address=Ltemp.TLKPpnpoQ5FtvwC [event=x]",
         "Link attached: dir=out name=l0 address=Ltemp.******* [event=x]"),
        ("from amqp:/_topo/0/A/temp.+a-b_C+, and _edge/E/temp.D9",
         "from amqp:/_topo/0/A/temp.*******, and _edge/E/temp.*******"),
        *((f"({address})", re.sub("temp.*", "temp.*******", address).join("()")) for address in GENERATED),
        ("address=M0orders", "address=M0orders"),
    ],
)  # fmt: skip
def test_reply_addresses_are_hidden(text: str, shown: str) -> None:
    asked: list[int | None] = []

    def recent(limit: int | None) -> list[list[object]]:
        asked.append(limit)
        return [["ROUTER_CORE", "info", text, "", 0, 1.5]]

    assert log_for_reader(recent)(7) == [["ROUTER_CORE", "info", shown, "", 0, 1.5]]
    assert asked == [7]
