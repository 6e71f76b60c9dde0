"""All pairs of the state tables: listed ones lead to the next state, others are protocol errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import frames
from tests.kit.frames import AMQP, RECEIVER
from tests.kit.pump import Hub, Peer
from tests.kit.recorder import Recorder
from waymesh_amqp.errors import ILLEGAL_STATE
from waymesh_amqp.link import Link
from waymesh_amqp.link_frames import open_link
from waymesh_amqp.performatives import Attach, Close, End, Terminus
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.states import (
    ATTACH_RCVD,
    ATTACH_SENT,
    ATTACHED,
    BEGIN_RCVD,
    BEGIN_SENT,
    CLOSE_PIPE,
    CLOSE_RCVD,
    CLOSE_SENT,
    CONNECTION,
    DETACH_PIPE,
    DETACH_RCVD,
    DETACH_SENT,
    DETACHED,
    END,
    END_PIPE,
    END_RCVD,
    END_SENT,
    ENDED,
    GONE,
    HDR_EXCH,
    HDR_RCVD,
    LINK,
    MAPPED,
    OC_PIPE,
    OPEN_PIPE,
    OPEN_RCVD,
    OPEN_SENT,
    OPENED,
    SESSION,
    START,
    UNMAPPED,
    ConnectionState,
    Event,
    LinkState,
    ProtocolError,
    SessionState,
    Table,
    advance,
)

State = ConnectionState | SessionState | LinkState
TABLES: dict[str, Table[Any]] = {"connection": CONNECTION, "session": SESSION, "link": LINK}


def pairs(table: Table[Any]) -> Iterable[tuple[Any, Event]]:
    """All pairs, allowed or not."""
    states = {s for s, _ in table} | set(table.values())
    events = {e for _, e in table}
    return [(s, e) for s in sorted(states) for e in sorted(events)]


def name_of(value: str | State) -> str:
    """How a test's case is called."""
    return value.name if isinstance(value, IntEnum) else str(value)


ALL = [(what, s, e) for what, table in TABLES.items() for s, e in pairs(table)]


@pytest.mark.parametrize(("what", "state", "event"), ALL, ids=name_of)
def test_pair(what: str, state: State, event: Event) -> None:
    table = TABLES[what]
    following = table.get((state, event))
    if following is not None:
        assert advance(table, state, event) == following
        return
    with pytest.raises(ProtocolError) as caught:
        advance(table, state, event)
    assert caught.value.condition == ILLEGAL_STATE
    assert event[:-1] in caught.value.description
    assert f"the {what} is {state.name}" in caught.value.description


@pytest.mark.parametrize("what", TABLES)
def test_each_state_is_reached_and_ends(what: str) -> None:
    table = TABLES[what]
    start = next(iter(table))[0]
    reached = {start}
    while True:
        more = {n for (s, _), n in table.items() if s in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == {s for s, _ in table} | set(table.values())
    final = {s for s in reached if not any(s == t for t, _ in table)}
    assert len(final) == 1


# ---- connections on the wire
def server() -> Peer:
    return Hub(Recorder()).peer()


def client() -> Peer:
    return Hub(Recorder()).peer(ConnectionSettings("c", client=True))


def closing(peer: Peer) -> Peer:
    peer.conn.close()
    peer.take()
    return peer


def after(peer: Peer, *data: bytes) -> Peer:
    peer.send(*data)
    return peer


CONNECTIONS: dict[ConnectionState, Callable[[], Peer]] = {
    START: server,
    HDR_EXCH: lambda: after(server(), AMQP),
    OPENED: lambda: server().open(),
    OPEN_PIPE: client,
    OPEN_SENT: lambda: after(client(), AMQP),
    OC_PIPE: lambda: closing(client()),
    CLOSE_PIPE: lambda: closing(after(client(), AMQP)),
    CLOSE_SENT: lambda: closing(server().open()),
}
ARRIVING = {"header<": AMQP, "open<": frames.open_(), "close<": frames.close()}
# what the server does by itself as soon as it may
ANSWERED = {HDR_RCVD: HDR_EXCH, OPEN_RCVD: OPENED, CLOSE_RCVD: END}


@pytest.mark.parametrize("event", ARRIVING)
@pytest.mark.parametrize("state", CONNECTIONS, ids=name_of)
def test_connection_event_on_the_wire(state: ConnectionState, event: Event) -> None:
    peer = CONNECTIONS[state]()
    assert peer.conn.state == state
    peer.take()
    answers = peer.send(ARRIVING[event])
    following = CONNECTION.get((state, event))
    if following is not None:
        assert peer.conn.state == ANSWERED.get(following, following)
        assert peer.conn.done == (peer.conn.state == END)
        return
    assert peer.conn.done
    assert len(peer.handler.named("close")) == 1
    if state in (START, OPEN_PIPE, OC_PIPE):  # nothing but a header can be told to this peer
        assert [a for a in answers if a != AMQP] == []
    elif state not in (CLOSE_SENT, CLOSE_PIPE):
        assert isinstance(answers[-1], Close)
        assert answers[-1].error is not None
        assert answers[-1].error.condition in (ILLEGAL_STATE, "amqp:connection:framing-error")


# ---- sessions
def our_session(peer: Peer) -> Peer:
    peer.conn.open_session()
    peer.take()
    return peer


def ended(peer: Peer) -> Peer:
    peer.conn.sessions[0].end()
    peer.take()
    return peer


SESSIONS: dict[SessionState, Callable[[], Peer]] = {
    UNMAPPED: lambda: server().open(),
    MAPPED: lambda: server().open().begin(),
    END_SENT: lambda: ended(server().open().begin()),
    BEGIN_SENT: lambda: our_session(server().open()),
    END_PIPE: lambda: ended(our_session(server().open())),
}


@pytest.mark.parametrize("event", ["begin<", "end<"])
@pytest.mark.parametrize("state", SESSIONS, ids=name_of)
def test_session_event_on_the_wire(state: SessionState, event: Event) -> None:
    peer = SESSIONS[state]()
    session = peer.conn.sessions.get(0)
    assert (session.state if session is not None else UNMAPPED) == state
    answers = peer.send(
        frames.begin(remote_channel=None if session is None else 0) if event == "begin<" else frames.end()
    )
    following = SESSION.get((state, event))
    if following is None:
        assert isinstance(answers[-1], Close)
        assert answers[-1].error is not None
        assert answers[-1].error.condition in (ILLEGAL_STATE, "amqp:not-allowed")
        return
    assert not peer.conn.done
    if session is None:
        session = peer.conn.sessions[0]
    assert session.state == {BEGIN_RCVD: MAPPED, END_RCVD: ENDED}.get(following, following)


# ---- links
def our_link(peer: Peer) -> Peer:
    link = Link(peer.session())
    attach = Attach("n", 0, RECEIVER, source=Terminus("source"), target=Terminus("target"))
    open_link(peer.session(), link, attach)
    peer.handler.links.append(link)
    peer.take()
    return peer


def left(peer: Peer) -> Peer:
    peer.handler.links[0].detach()
    peer.take()
    return peer


def pending() -> Peer:
    peer = server().open().begin()
    peer.handler.defer = True
    return after(peer, frames.attach_sender("n"))


LINKS: dict[LinkState, Callable[[], Peer]] = {
    DETACHED: lambda: server().open().begin(),
    ATTACH_RCVD: pending,
    ATTACH_SENT: lambda: our_link(server().open().begin()),
    ATTACHED: lambda: after(server().open().begin(), frames.attach_sender("n")),
    DETACH_SENT: lambda: left(after(server().open().begin(), frames.attach_sender("n"))),
    DETACH_PIPE: lambda: left(our_link(server().open().begin())),
}


@pytest.mark.parametrize("event", ["attach<", "detach<"])
@pytest.mark.parametrize("state", LINKS, ids=name_of)
def test_link_event_on_the_wire(state: LinkState, event: Event) -> None:
    peer = LINKS[state]()
    link = peer.handler.links[0] if peer.handler.links else None
    assert (link.state if link is not None else DETACHED) == state
    answers = peer.send(frames.attach_sender("n") if event == "attach<" else frames.detach())
    following = LINK.get((state, event))
    if following is not None:
        link = link or peer.handler.links[0]
        assert link.state == {ATTACH_RCVD: ATTACHED, DETACH_RCVD: GONE}.get(following, following)
        assert not peer.conn.done
        return
    assert isinstance(answers[-1], (End, Close))
    assert answers[-1].error is not None
    assert answers[-1].error.condition in (
        ILLEGAL_STATE,
        "amqp:session:handle-in-use",
        "amqp:session:unattached-handle",
    )


# ---- walks
@given(st.lists(st.sampled_from(["header<", "open<", "close<", "close>"]), max_size=6), st.booleans())
def test_walks_of_a_connection_follow_the_table(events: list[Event], as_client: bool) -> None:
    peer = client() if as_client else server()
    for event in events:
        if peer.conn.done:
            break
        before = peer.conn.state
        if event == "close>":
            peer.conn.close()
        else:
            peer.send(ARRIVING[event])
        following = CONNECTION.get((before, event))
        if following is not None:
            assert peer.conn.state == ANSWERED.get(following, following)
        else:
            assert peer.conn.done or (event == "close>" and before in (HDR_EXCH, CLOSE_SENT))
    assert len(peer.handler.named("close")) <= 1


@given(
    st.lists(
        st.sampled_from(["begin<", "end<", "begin>", "end>", "attach<", "detach<", "attach>", "detach>"]), max_size=12
    )
)
def test_walks_of_sessions_and_links_stay_within_the_tables(events: list[str]) -> None:
    peer = server().open()
    for number, event in enumerate(events):
        if peer.conn.done:
            break
        session = next(iter(peer.conn.sessions.values()), None)
        usable = session is not None and session.state == MAPPED
        if event == "begin<":
            peer.send(frames.begin(remote_channel=0 if session is not None and session.state == BEGIN_SENT else None))
        elif event == "end<":
            peer.send(frames.end())
        elif event == "begin>" and session is None:
            peer.conn.open_session()
        elif event == "end>" and session is not None:
            session.end()
        elif event in ("attach<", "detach<"):
            peer.send(
                frames.attach_sender(f"n{number}", number % 2) if event == "attach<" else frames.detach(number % 2)
            )
        elif event == "attach>" and usable and session is not None:
            link = Link(session)
            open_link(session, link, Attach(f"o{number}", 0, RECEIVER, source=Terminus("source")))
            peer.handler.links.append(link)
        elif event == "detach>" and usable and peer.handler.links:
            peer.handler.links[-1].detach()
        peer.hub.turn()
    assert all(s.state in {s for s, _ in SESSION} | {ENDED} for s in peer.conn.sessions.values())
    assert all(link.state in {s for s, _ in LINK} | {GONE} for link in peer.handler.links)
    assert all(link.attached == (link.state == ATTACHED) for link in peer.handler.links)
    gone = [name for name, _ in peer.handler.named("detach")]
    assert len(gone) == len(set(gone)), "a link was reported gone twice"
    if peer.conn.done:
        assert len(peer.handler.named("close")) == 1
        assert peer.conn.sessions == {}


def test_tables_name_only_events_of_the_wire() -> None:
    known = {"header", "open", "close", "begin", "end", "attach", "detach"}
    assert {e[:-1] for table in TABLES.values() for _, e in table} <= known


def test_compiled_modules_take_the_same_numbers() -> None:
    text = Path(inspect.getfile(Event)).with_suffix(".pxd").read_text()
    declared = re.findall(r"^    (\w+) = (\d+)$", text, re.MULTILINE)
    members = [member for states in (ConnectionState, SessionState, LinkState) for member in states]
    assert declared == [(member.name, str(member.value)) for member in members]
