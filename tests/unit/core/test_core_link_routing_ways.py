"""Where the links of a session lead."""

from __future__ import annotations

from typing import Any

from waymesh_router.core.link_routing.ways import HERE, Ways


class Connection:
    over = False


def test_links_lead_over_the_oldest_connection_while_one_of_them_is_there() -> None:
    ways = Ways()
    session: Any = "session"
    old: Any = Connection()
    new: Any = Connection()
    assert not ways.over(session, "C")
    assert not ways.routers(session)
    for there in (old, old, new):
        ways.link_opened(session, "C", there)
    ways.link_opened(session, HERE, new)
    assert list(ways.over(session, "C")) == [old, new]
    assert set(ways.routers(session)) == {"C", HERE}
    ways.link_gone(session, "C", old)
    assert list(ways.over(session, "C")) == [old, new]
    ways.link_gone(session, "C", old)
    assert list(ways.over(session, "C")) == [new]
    assert [ways.next_hop(session, "C")] == [new]
    new.over = True
    assert ways.next_hop(session, "C") is None, "its connection is ending"
    ways.link_gone(session, "C", new)
    assert list(ways.routers(session)) == [HERE]
    ways.link_gone(session, HERE, new)
    assert list(ways.over(session, HERE)) == []
    assert ways._ways == {}, "nothing is kept of a session without links"
