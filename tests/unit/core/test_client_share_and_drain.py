"""A drain takes over what a router does to move clients: it ends all connections, or gives their credit back itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_router.client_share import ClientShare

pytestmark = pytest.mark.engine_independent


class Link:
    """A sender whose credit was withdrawn."""

    kind, is_sender, attached, accepting, retiring, credit, address = 1, False, True, False, False, 0, None
    granted = 0

    def grant(self) -> None:
        self.granted += 1


@pytest.mark.parametrize("drain_from", [0, 7])
def test_no_credit_is_given_back_while_the_router_drains(drain_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link()
    monkeypatch.setattr("waymesh_router.client_share.client_senders", lambda links: [link])
    settings = SimpleNamespace(client=False)
    conn = SimpleNamespace(id=1, over=False, role="normal", sessions={}, remote=None, settings=settings)
    core: Any = SimpleNamespace(now=0.0, connections={1: conn}, context=SimpleNamespace(drain_from=drain_from))
    share = ClientShare(core, lambda *line: None)
    share._emptied[1] = 0.0
    share.tick(1.0)
    assert link.granted == (0 if drain_from else 1)
    assert share._emptied == {}
