"""What the clients of a run do: who sends what where, and who receives it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.events import ACCEPTED, MODIFIED, REJECTED, RELEASED
from tests.chaos.history import Terms

CONSUMER_CREDIT = 20
ANSWERS = {ACCEPTED: 90, RELEASED: 3, REJECTED: 4, MODIFIED: 3}
"""What consumers answer, with weights."""
LARGE = (40_000, 200_000)
"""Bytes of large messages: some frames, and more than what goes on the links for all messages."""
LARGE_SHARE = 0.01
PRIORITIES = (4, 4, 4, 9)
FALLBACK = "qd.fallback"
"""The capability of a fallback consumer."""
LATE_S = 1.0
"""The longest time for which a consumer keeps a message before it answers; most are answered at once."""


@dataclass(frozen=True, slots=True)
class Sends:
    """A producer's link. `rate`: messages a second; `window`: so many wait for their outcomes at most; `size`: of
    each message in bytes, 0: at random."""

    address: str
    settled: bool = False
    rate: float = 15.0
    window: int = 30
    size: int = 0


@dataclass(frozen=True, slots=True)
class Receives:
    """A consumer's link. `stays_s`: it detaches after about that long and attaches again; 0: it stays. `capability`: of
    its source."""

    address: str
    stays_s: float = 0.0
    capability: str = ""


@dataclass(frozen=True, slots=True)
class Transacts:
    """A producer's link whose messages are sent in transactions, so many in each. One in so many is aborted."""

    address: str
    messages: int = 3
    aborted: int = 4


@dataclass(frozen=True, slots=True)
class Collects(Receives):
    """A requester's link for replies, at a dynamic address ("") or one of its own."""


@dataclass(frozen=True, slots=True)
class Asks(Sends):
    """A requester's link, whose replies come on the link before it in the plan."""


@dataclass(frozen=True, slots=True)
class Replies(Sends):
    """A responder's link without an address, for the replies of all other links of its client."""


@dataclass(frozen=True, slots=True)
class Serves(Receives):
    """A responder's link: what it accepts gets one reply."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A client: its router and its links. `tenant`: the vhost that it asks for, at a listener for several tenants;
    `program`: in which it is, if not in Python."""

    router: str
    links: tuple[Sends | Receives | Transacts, ...]
    tenant: str = ""
    program: str = ""


def _receives(*addresses: str) -> tuple[Receives, ...]:
    return tuple(Receives(address) for address in addresses)


ORDERS, EVENTS, NEAR = "balanced.orders", "balanced.events", "closest.near"
NEWS, TICKS = "multicast.news", "multicast.ticks"
PLANS = {
    "sender-a": Plan("A", (Sends(ORDERS), Sends(NEAR))),
    "sender-b": Plan("B", (Sends(NEWS),)),
    "sender-c": Plan("C", (Sends(EVENTS, settled=True), Sends(ORDERS))),
    "sender-e": Plan("E", (Sends(ORDERS), Sends(TICKS, settled=True), Sends(NEAR))),
    "taker-a": Plan("A", _receives(EVENTS, NEWS, TICKS)),
    "taker-b": Plan("B", (*_receives(ORDERS, TICKS, NEAR), Receives(ORDERS, stays_s=3.0))),
    "taker-c": Plan("C", _receives(ORDERS, EVENTS, NEWS, TICKS)),
    "taker-e": Plan("E", _receives(ORDERS, EVENTS, NEAR, NEWS)),
}

SLOWLY = 4.0
"""Messages a second of some clients."""
PRICES, STOCK = "balanced.prices", "balanced.stock"


def _asks(own: str) -> tuple[Sends | Receives, ...]:
    """Requests with replies at a dynamic address, and others with replies at an own one."""
    window, rate = 10, SLOWLY
    return Collects(""), Asks(PRICES, False, rate, window), Collects(own), Asks(STOCK, False, rate, window)


SERVES = (Replies(""), Serves(PRICES), Serves(STOCK))
ASKING = {
    "asker-a": Plan("A", _asks("balanced.replies.a")),
    "asker-e": Plan("E", _asks("closest.replies.e")),
    "server-c": Plan("C", SERVES),
    "server-e": Plan("E", SERVES),
}
"""Requests and replies between routers, over an edge router, too."""
LANGUAGES = {
    "rhea-b": Plan(
        "B", (Sends(ORDERS, False, SLOWLY), Sends(EVENTS, True, SLOWLY), *_receives(ORDERS, NEWS)), program="rhea"
    ),
    "go-e": Plan(
        "E", (Sends(ORDERS, False, SLOWLY), Sends(TICKS, True, SLOWLY), *_receives(ORDERS, NEAR)), program="go-amqp"
    ),
}
"""Clients of other languages, at an interior and an edge router."""

QUEUE, ROUTED, DEALS = "queue.work", "routed.box", "routed.deals"
JOBS, ALERTS, BULK = "fallback.jobs", "exchange.alerts", "balanced.bulk"
BOUND = ("bound.near", "bound.far")
TENANT = "guest.example"
WIDE = PLANS | ASKING | LANGUAGES | {
    "sender-q": Plan("A", (Sends(QUEUE), Sends(ROUTED, rate=8.0), Transacts(DEALS))),
    "taker-q": Plan("B", _receives(QUEUE, DEALS)),
    "taker-r": Plan("E", _receives(QUEUE, ROUTED)),
    "sender-x": Plan("E", (Sends(JOBS), Sends(ALERTS), Sends(BULK, rate=0.2, window=1, size=10_000_000))),
    "taker-x": Plan("A", (*_receives(*BOUND, BULK), Receives(JOBS, stays_s=3.0))),
    "fallback": Plan("C", (Receives(JOBS, capability=FALLBACK),)),
    "sender-t": Plan("B", (Sends(ORDERS), Sends(NEAR)), TENANT),
    "taker-t": Plan("A", _receives(ORDERS, NEAR), TENANT),
}
"""The clients of wide runs: also requests and replies, other languages, what goes through a broker's queues, by
autolinks and link routes, with transactions, exchanges, fallback and messages of 10 MB, and a tenant who uses the names
of others."""
WITHOUT_BROKERS = {
    name: plan
    for name, plan in WIDE.items()
    if name not in ASKING | LANGUAGES and not any(link.address in (QUEUE, ROUTED, DEALS) for link in plan.links)
} | {"sender-x": Plan("E", (Sends(JOBS), Sends(ALERTS), Sends(BULK, rate=0.2, window=1, size=1_000_000)))}
"""Those of them that the simulation has, too. Messages of 10 MB would take four fifths of its time."""
TERMS = Terms(
    multicast=frozenset({NEWS, TICKS}),
    stored=frozenset({QUEUE, ROUTED, DEALS}),
    exchanges={ALERTS: frozenset(BOUND)},
    stall_s=20.0,
)
