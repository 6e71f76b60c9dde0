"""Random scripts of clients of the model, which follow the protocol frame by frame, at a mesh of simulated routers."""

from __future__ import annotations

import itertools
import random
from typing import Any

from tests.model.client import Client, Consumer, Delivery, Producer
from tests.simulation.full.accounts import accounts, records
from tests.simulation.full.containers import Broker
from tests.simulation.full.edges import edge_faults
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults
from tests.simulation.full.routes import BOTH
from tests.simulation.full.sockets import Line, Sockets
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outcomes import ACCEPTED, RELEASED, modified, rejected
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_kinds import DATA
from waymesh_router.core.link_kinds import ROUTED as ROUTED_LINK

PART = 15_000
"""Bytes that fit into one frame."""
AT_REST = 50
"""Looks without news, each 0.02 s: routers tell what consumers can take within half a second."""
SIZES = (3, 3, 3, 30, 30, 30, 700, 700, 3000, 3000, 3000, 40_000, 40_000, 400_000)
CAPACITY = 8
"""Credit of all links of clients and between routers: few messages use it up."""
ONE = ("balanced", "closest", "fall")
EACH = "multicast"
EXCHANGE = "news"
COPIES = ("office.one", "office.all")
ROUTED = "b2.queue"
SINKS = (*ONE, EACH, EACH, EACH, EXCHANGE, *COPIES)
CONFIG = (
    "".join(f"address {{\nprefix: {name}\ndistribution: {name}\n}}\n" for name in ("balanced", "closest", EACH))
    + "address {\nprefix: fall\nenableFallback: yes\n}\n"
    + "address {\nprefix: office.all\ndistribution: multicast\n}\n"
)
ALONE = "address {\nprefix: alone\nexclusive: yes\n}\n"
GROUPED = "address {\nprefix: grouped\nmessageGroups: yes\n}\n"
AT_EXCHANGE = f"exchange {{\nname: x\naddress: {EXCHANGE}\n}}\n" + "".join(
    f"binding {{\nexchangeName: x\nbindingKey: #\nnextHopAddress: {name}\n}}\n" for name in COPIES
)
OUTCOMES = (ACCEPTED, ACCEPTED, RELEASED, rejected(), modified(delivery_failed=True))
BUDGETS = ((1 << 40, 1 << 40, 1 << 40), (1 << 40, 1 << 40, 1 << 40), (3000, 1 << 40, 1500), (2000, 1500, 1000))


class Script:
    """`storm`: routers and cables fail, too. `priorities`: of consumers. `groups`: also at an address with as many
    message groups. `exclusive`: share of the consumers of balanced addresses that ask to be the only ones; there is
    also an address that always has one."""

    def __init__(
        self,
        seed: int,
        storm: float = 0.0,
        priorities: tuple[int, ...] = (),
        groups: int = 0,
        exclusive: float = 0.0,
    ) -> None:
        rng = self.rng = random.Random(seed)
        self.priorities = priorities
        self.groups = groups
        self.exclusive = exclusive
        self.storm = storm
        self.before = records()
        self.crashed = False
        network = self.network = Network(seed)
        self.sockets = Sockets(network)
        config = CONFIG + GROUPED * bool(groups) + ALONE * bool(exclusive)
        names = rng.choice(("A", "AB", "ABC", "ABC"))
        hub = rng.choice(names)
        for name in names:
            network.router(name, config + (AT_EXCHANGE if name == hub else ""))
        pairs = list(itertools.pairwise(names)) + ([("A", "C")] if names == "ABC" and rng.random() < 0.4 else [])
        for one, other in pairs:
            network.cable(one, other, rng.choice((0.0005, 0.003)))
        for number in range(rng.choice((0, 1, 2))):
            edge = network.edge(f"E{number}", rng.sample(names, min(2, len(names))))
            edge.extra = config
        self.routed = not storm and rng.random() < 0.5
        if self.routed:
            place = network.routers[rng.choice(names)]
            place.extra += BOTH
            self.broker = Broker(network, credit=CAPACITY)
            self.broker.connector(place)
        more = ("grouped",) * 6 * bool(groups) + ("alone", "alone") * bool(exclusive)
        self.sinks: tuple[str, ...] = (*SINKS, *(ROUTED, ROUTED) * self.routed, *more)
        for router in self.routers():
            for cable in router.cables.values():
                cable.extra = f"linkCapacity: {CAPACITY}\n"
            self.start(router)
        network.until(self.whole, 10.0, 0.05)
        network.run(1.0)
        self.limits = rng.choice(BUDGETS)
        self.limit()
        self.clients: list[Client] = []
        self.sent: list[Delivery] = []

    def start(self, router: SimRouter) -> None:
        router.start()
        for listener in router.router.listeners.values():
            listener["linkCapacity"] = CAPACITY

    def limit(self) -> None:
        for router in self.routers():
            router.core.budget.set_limits(*self.limits)

    def routers(self) -> list[SimRouter]:
        return [*self.network.routers.values(), *self.network.edges.values()]

    def whole(self) -> bool:
        return not faults(self.network) and not edge_faults(self.network)

    # ---- what `Client` needs of a hub
    def peer(self, settings: ConnectionSettings) -> Any:
        router = self.rng.choice([router for router in self.routers() if router.alive])
        return Line(self.network, self.sockets, router, self)

    def turn(self) -> None:
        """Time passes between the steps."""

    # ---- picking
    def live(self) -> list[Client]:
        return [client for client in self.clients if client.alive]

    def producers(self) -> list[Producer]:
        return [k for c in self.live() for k in c.links if isinstance(k, Producer) and k.alive]

    def consumers(self, alive: bool = True) -> list[Consumer]:
        clients = self.live() if alive else self.clients
        return [k for c in clients for k in c.links if isinstance(k, Consumer) and (k.alive or not alive)]

    # ---- steps
    def step(self) -> None:
        rng = self.rng
        steps = (
            (50, self.send), (15, self.go_on), (15, self.credit), (25, self.settle), (3, self.give_up),
            (8, self.windows), (8, self.produce), (8, self.consume), (4, self.connect), (4, self.detach),
            (2, self.leave), (8, self.calm), (self.storm, self.fail),
        )  # fmt: skip
        (step,) = rng.choices([call for _, call in steps], [weight for weight, _ in steps])
        step()
        self.pass_time(rng.choice((0.0, 0.0, 0.0005, 0.003, 0.02)))

    def pass_time(self, seconds: float) -> None:
        self.network.run(seconds)
        for client in self.live():
            client.read()
            if client.peer.conn.done:
                assert self.storm, client.name
                client.alive = False
                for link in client.links:
                    link.alive = False
        for producer in self.producers():
            if producer.drain:
                producer.client.answer_drain(producer)

    def connect(self) -> None:
        if len(self.live()) < 8 and any(router.alive for router in self.routers()):
            rng = self.rng
            hub: Any = self
            client = Client(hub, f"k{len(self.clients)}", rng.choice((1, 3, 1000)), rng.choice((None, 512)))
            client.may_try_again = bool(self.storm)
            self.clients.append(client)
            self.pass_time(0.01)

    def client(self) -> Client | None:
        here = [client for client in self.live() if len(client.links) < 12]
        return self.rng.choice(here) if here else None

    def produce(self) -> None:
        client = self.client()
        if client is not None:
            client.attach_producer(self.rng.choice((*self.sinks, None, None, None)))

    def consume(self) -> None:
        client, rng = self.client(), self.rng
        if client is not None:
            sink = rng.choice((*self.sinks, "spare"))
            mode, second = rng.choice(((2, False), (2, False), (0, False), (1, False), (2, True)))
            spare: dict[str, Any] = {"capabilities": [Symbol("qd.fallback")]} if sink == "spare" else {}
            second = second and sink != ROUTED  # the broker knows no such consumers
            link = client.attach_consumer("fall" if spare else sink, mode, second, self.properties(sink), **spare)
            amount = rng.choice((0, 0, 1, 10, 1000))
            if amount:
                client.give_credit(link, amount)

    def properties(self, sink: str) -> dict[str, Any]:
        """Of the attach of a consumer."""
        found: dict[str, Any] = {}
        if self.priorities and sink != ROUTED:
            found["priority"] = self.rng.choice(self.priorities)
        if self.exclusive and sink == "balanced" and self.rng.random() < self.exclusive:
            found["exclusive"] = True
        return found

    def send(self) -> None:
        rng = self.rng
        able = [p for p in self.producers() if p.may_begin()]
        if not able:
            return
        link = rng.choice(able)
        settled = rng.choice((0.0, 0.5, 1.0))
        for _ in range(rng.choice((1, 1, 3, 10, 40))):
            if link.alive and link.may_begin():
                self.begin(link, settled)
            elif link.open is None:
                self.pass_time(0.0005)  # more than the credit of one moment

    def begin(self, link: Producer, settled: float) -> None:
        rng = self.rng
        address = link.address or rng.choice((*self.sinks, "nowhere"))
        text = f"{link.name}/{link.client.next_id}".encode().ljust(rng.choice(SIZES), b".")
        own = Message(body=text, body_kind="data", subject="s", to=None if link.address else address)
        if self.groups and rng.random() < 0.8:
            own.group_id = f"g{rng.randrange(self.groups)}"
        body = encode_message(own)
        cuts = [rng.randrange(len(body)) for _ in range(rng.choice((0, 0, 0, 1, 4)))]
        edges = sorted({0, *cuts, *range(0, len(body), PART), len(body)})
        parts = [body[a:z] for a, z in itertools.pairwise(edges)]
        delivery = Delivery(link.client.next_id, text, rng.random() < settled, link, [], parts, address)
        self.sent.append(delivery)
        link.client.begin_delivery(delivery)
        if rng.random() < 0.7:
            while link.open is not None and link.client.may_send > 0:
                link.client.continue_delivery(link)

    def go_on(self) -> None:
        under_way = [p for p in self.producers() if p.open is not None and p.client.may_send > 0]
        if under_way:
            link = self.rng.choice(under_way)
            link.client.abort(link) if self.rng.random() < 0.2 else link.client.continue_delivery(link)

    def credit(self) -> None:
        if self.consumers():
            link = self.rng.choice(self.consumers())
            amount = max(link.credit, self.rng.choice((1, 1, 10, 1000)))
            link.client.give_credit(link, amount, self.rng.random() < 0.15)

    def settle(self) -> None:
        rng = self.rng
        able = [k for k in self.consumers() if k.unsettled]
        if able:
            link = rng.choice(able)
            ids = sorted(link.unsettled)
            state = rng.choice(OUTCOMES)
            link.client.settle(link, ids if rng.random() < 0.5 else [rng.choice(ids)], state)

    def give_up(self) -> None:
        able = [(p, d) for p in self.producers() for d in p.waiting.values() if p.open is not d]
        if able:
            link, delivery = self.rng.choice(able)
            link.client.settle_as_sender(link, delivery)

    def windows(self) -> None:
        for client in self.live():
            client.open_window()

    def detach(self) -> None:
        links: list[Any] = [*self.producers(), *self.consumers()]
        if links:
            link = self.rng.choice(links)
            link.client.detach(link)

    def leave(self) -> None:
        if len(self.live()) > 2:
            self.rng.choice(self.live()).leave(self.rng.choice(("end", "close", "kill")))

    def fail(self) -> None:
        network, rng = self.network, self.rng
        self.pass_time(0.0)
        if network.cables and rng.random() < 0.5:
            cable = rng.choice(network.cables)
            cable.cut()
            network.after(0.05, cable.mend)
        else:
            router = rng.choice([r for r in self.routers() if r.alive] or self.routers())
            if router.alive:
                self.crashed = True  # others may still refer to its last instance
                router.crash()
                network.after(0.1, self.revive, router)

    def revive(self, router: SimRouter) -> None:
        self.start(router)
        router.core.budget.set_limits(*self.limits)

    def calm(self) -> None:
        """While consumers take nothing, no link between routers waits for them."""
        if self.storm or self.limits != BUDGETS[0]:
            return
        for _ in range(100):
            under_way = [p for p in self.producers() if p.open is not None]
            for link in under_way:
                if link.client.may_send > 0:
                    link.client.continue_delivery(link)
            self.pass_time(0.01)
            if not under_way:
                break
        self.windows()
        self.pass_time(0.2)
        found = [
            f"{router.name}: {link.name} waits for {link.outstanding}, {link.unsettled} unsettled"
            for router in self.routers()
            for link in router.core.links.values()
            if not link.is_sender and link.outstanding > self.may_wait(router, link)
        ]
        links = [link for router in self.routers() for link in router.core.links.values()]
        large = any(p.open for p in self.producers()) or any(link.mid_delivery for link in links)
        assert large or not found, found  # a large message on its way stops those behind it

    def may_wait(self, router: SimRouter, link: Any) -> int:
        """The deliveries of an incoming link that may keep their credit while consumers take nothing."""
        if link.kind == ROUTED_LINK or link.streaming or link.stream_links:
            return int(link.outstanding)  # the container decides; or it waits behind a long message of the same sender
        if link.kind == DATA or (link.edge and link.anonymous):
            return 0
        edge = router.name in self.network.edges  # limited by its link of the same address
        return CAPACITY if edge else int(link.unsettled)

    # ---- the end
    def run(self, steps: int) -> None:
        for _ in range(3):
            self.connect()
        for _ in range(steps):
            self.step()
        self.finish()

    def finish(self) -> None:
        self.network.until(lambda: all(r.alive for r in self.routers()) and self.whole(), 30.0, 0.05)
        self.pass_time(0.1)
        self.come_to_rest()
        self.check_messages()
        found = [fault for router in self.routers() for fault in accounts(router)]
        assert not found, found
        for client in self.live():
            client.leave("close")
        self.network.run(1.0)
        found = [fault for router in self.routers() for fault in accounts(router, empty=True)]
        assert not found, found
        if not self.crashed:
            assert not records(self.before)

    def come_to_rest(self) -> None:
        quiet = 0
        for client in self.live():
            client.incoming = 1000
        for _ in range(1000):
            got = sum(len(k.got) for k in self.consumers())
            busy = False
            for client in self.live():
                client.open_window()
            for link in self.consumers():
                busy = busy or bool(link.unsettled) or link.part is not None
                link.client.settle(link, sorted(link.unsettled), ACCEPTED)
                if link.credit < 20:
                    link.client.give_credit(link, 50)
            for producer in self.producers():
                busy = busy or producer.open is not None or bool(producer.waiting)
                if producer.open is not None and producer.client.may_send > 0:
                    producer.client.continue_delivery(producer)
            self.pass_time(0.02)
            busy = busy or sum(len(k.got) for k in self.consumers()) != got
            quiet = 0 if busy else quiet + 1
            if quiet == AT_REST:
                return
        stuck = [f"{p.name} to {p.address}: {len(p.waiting)} wait" for p in self.producers() if p.open or p.waiting]
        stuck += [f"{k.name} of {k.address}" for k in self.consumers() if k.unsettled or k.part is not None]
        raise AssertionError(f"does not come to rest: {stuck}")

    def check_messages(self) -> None:
        takers: dict[object, list[Consumer]] = {}
        for consumer in self.consumers(alive=False):
            assert len(consumer.got) == len({_body(g) for g in consumer.got}) or self.storm, f"{consumer.name}: twice"
            for got in consumer.got:
                takers.setdefault(_body(got), []).append(consumer)
        for d in self.sent:
            there = takers.get(d.body, [])
            if not d.settled and not d.aborted and d.producer.alive:
                assert d.outcome is not None, d
            if d.address not in (EACH, EXCHANGE, "office.all", ROUTED):
                assert len(there) < 2, d
                if d.outcome is not None and d.outcome.descriptor == 0x24:
                    lossy = [k for k in self.consumers(alive=False) if k.address == d.address and k.mode == 1]
                    assert len(there) == 1 or (lossy and not there), d
                if there and d.producer.alive and not d.settled and not self.storm:
                    accepted = [k for k in there if d.body in {_body(b) for b in k.accepted}]
                    if accepted and accepted[0].alive:
                        assert d.outcome == ACCEPTED, d
            if d.aborted:
                assert not there, d


def _body(message: bytes) -> object:
    return decode_message(message).body
