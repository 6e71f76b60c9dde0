"""Bodies of the control messages: parsing received ones, building those to send.

Source: protocol/inter-router.md, "Control messages" and "Address keys". The parser accepts symbol or string keys and
integers of any width; a malformed body raises `BadBody` and has no effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

PROTOCOL_VERSION = 1
MOBILE_CLASSES = frozenset("MCDEFH")
# Treatments: 0 multicast-flood, 1 multicast-once, 2 closest, 3 balanced, 4 link-balanced, 5 unavailable.
TREATMENTS = range(6)
# Treatment of an address without a usable hint: the default of the `router` entity's defaultDistribution.
NO_HINT_TREATMENT = 3
_LONG_END = 1 << 63
OFFERS = "x-waymesh-offers"
"""Key in a MAU that only Waymesh routers know: a map from address keys of link routes to capabilities."""
DEMAND = "x-waymesh-demand"
NO_ADDRESSES = "x-waymesh-no-addresses"
"""Key in an LSU that only Waymesh routers know: the mobile sequence at which the router had no addresses. It saves the
requests for empty tables: when a mesh starts, almost one for each pair of routers."""
Offers = Mapping[str, Mapping[str, object]]


class BadBody(ValueError):
    """A control message with a malformed body; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Hello:
    """A router introduces itself and lists the routers that it hears on this connection."""

    id: str
    version: int
    instance: int
    seen: frozenset[str]


@dataclass(frozen=True, slots=True)
class Ra:
    """A router announces the current sequences of its link state and its mobile addresses."""

    id: str
    version: int
    instance: int
    ls_seq: int
    mobile_seq: int


@dataclass(frozen=True, slots=True)
class Lsu:
    """A router's link state: its neighbours with their costs.

    `empty_mobile_seq`: the router had no mobile addresses at this sequence; None if the message does not have it.
    `demand`: the router tells what its consumers are ready for.
    """

    id: str
    version: int
    instance: int
    ls_seq: int
    peers: dict[str, int]
    empty_mobile_seq: int | None = None
    demand: bool = False


@dataclass(frozen=True, slots=True)
class Lsr:
    """A router requests the link state of this router."""

    id: str
    version: int


@dataclass(frozen=True, slots=True)
class Mau:
    """`exist` is the whole table of an absolute update; otherwise it is None, and `add`, `delete` are the difference.

    `offers`: for addresses of link routes, the capabilities of their containers.
    """

    id: str
    mobile_seq: int
    exist: dict[str, int] | None
    add: dict[str, int]
    delete: list[str]
    offers: dict[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mar:
    """A router requests the mobile addresses of this router; it already has those up to sequence `have_seq`."""

    id: str
    have_seq: int


Message = Hello | Ra | Lsu | Lsr | Mau | Mar


def sender(body: Mapping[str, object]) -> tuple[str, int]:
    """Router id and protocol version of a body (0 without a version)."""
    return _text(body, "id"), _number(body, "pv", 0)


def parse(opcode: str, body: Mapping[str, object]) -> Message:
    """Parse a control body; raises BadBody."""
    router_id, version = sender(body)
    if opcode == "HELLO":
        return Hello(router_id, version, _number(body, "instance", 0), frozenset(_texts(body, "seen")))
    if opcode == "RA":
        ls_seq, mobile_seq = _number(body, "ls_seq"), _number(body, "mobile_seq")
        return Ra(router_id, version, _number(body, "instance", 0), ls_seq, mobile_seq)
    if opcode == "LSU":
        ls_seq, peers = _link_state(body, router_id)
        empty = _number(body, NO_ADDRESSES) if NO_ADDRESSES in body else None
        return Lsu(router_id, version, _number(body, "instance", 0), ls_seq, peers, empty, DEMAND in body)
    if opcode == "LSR":
        return Lsr(router_id, version)
    if opcode == "MAU":
        return _mobile_update(body, router_id)
    if opcode == "MAR":
        return Mar(router_id, _number(body, "have_seq"))
    raise BadBody(f"unknown opcode {opcode!r}")


def _text(body: Mapping[str, object], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise BadBody(f"{key} is not a string: {value!r}")
    return str(value)


def _number(body: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = body.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LONG_END:
        raise BadBody(f"{key} is not a number: {value!r}")
    return int(value)


def _list(body: Mapping[str, object], key: str) -> list[object]:
    value = body.get(key)
    if not isinstance(value, list | tuple):
        raise BadBody(f"{key} is not a list: {value!r}")
    return list(value)


def _texts(body: Mapping[str, object], key: str) -> list[str]:
    texts = []
    for value in _list(body, key):
        if not isinstance(value, str):
            raise BadBody(f"{key} names something that is not a string: {value!r}")
        texts.append(str(value))
    return texts


def _link_state(body: Mapping[str, object], router_id: str) -> tuple[int, dict[str, int]]:
    state = body.get("ls")
    if not isinstance(state, Mapping):
        raise BadBody(f"ls is not a map: {state!r}")
    if _text(state, "id") != router_id:
        raise BadBody(f"ls of {state.get('id')!r} in a message from {router_id}")
    peers = state.get("peers")
    if not isinstance(peers, Mapping):
        raise BadBody(f"peers is not a map: {peers!r}")
    costs = {}
    for peer, cost in peers.items():
        if not isinstance(peer, str) or not isinstance(cost, int) or not 1 <= cost < _LONG_END >> 32:
            raise BadBody(f"peers has {peer!r}: {cost!r}")
        costs[str(peer)] = int(cost)
    return _number(state, "ls_seq"), costs


def _mobile_update(body: Mapping[str, object], router_id: str) -> Mau:
    mobile_seq = _number(body, "mobile_seq")
    if "exist" in body:
        if "add" in body or "del" in body:
            raise BadBody("exist together with add or del")
        return Mau(router_id, mobile_seq, _hinted(body, "exist"), {}, [], _offers(body))
    return Mau(router_id, mobile_seq, None, _hinted(body, "add"), _texts(body, "del"), _offers(body))


def _offers(body: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """The announced capabilities of containers; routers of Dispatch neither send nor read them."""
    offers = body.get(OFFERS)
    if not isinstance(offers, Mapping):
        return {}
    return {str(key): offer for key, offer in offers.items() if isinstance(offer, Mapping)}


def _hinted(body: Mapping[str, object], key: str) -> dict[str, int]:
    """Address keys of a list with their treatments; keys of classes that routers do not exchange are left out."""
    keys = _texts(body, key)
    hints = body.get("hints")
    if not isinstance(hints, list | tuple) or len(hints) != len(keys):
        hints = [NO_HINT_TREATMENT] * len(keys)
    return {
        address: int(hint) if isinstance(hint, int) and hint in TREATMENTS else NO_HINT_TREATMENT
        for address, hint in zip(keys, hints, strict=True)
        if travels(address)
    }


def travels(key: str) -> bool:
    """Whether routers exchange addresses of this key's class."""
    return len(key) > 1 and key[0] in MOBILE_CLASSES


def base_body(router_id: str, area: str) -> dict[str, object]:
    """The beginning of every control body; the whole body of an LSR."""
    return {"id": router_id, "pv": PROTOCOL_VERSION, "area": area}


def link_state_body(
    router_id: str, area: str, instance: int, ls_seq: int, peers: Mapping[str, int], more: Mapping[str, object]
) -> dict[str, object]:
    """Body of an LSU. `more`: what routers of Dispatch neither send nor read."""
    state = {"id": router_id, "area": area, "ls_seq": ls_seq, "peers": dict(peers)}
    body = base_body(router_id, area) | {"instance": instance, "ls_seq": ls_seq, "ls": state}
    return {**body, **more}


def link_state_more(empty_mobile_seq: int | None, demand: bool) -> dict[str, object]:
    """`empty_mobile_seq`: the mobile sequence if the router has no mobile addresses, else None. `demand`: the router
    tells what its consumers are ready for."""
    more: dict[str, object] = {} if empty_mobile_seq is None else {NO_ADDRESSES: empty_mobile_seq}
    return more | {DEMAND: 1} if demand else more


def differential(add: Mapping[str, int], delete: Iterable[str], offers: Offers) -> dict[str, object]:
    """Body part of a differential MAU."""
    return {"hints": list(add.values()), "add": list(add), "del": list(delete), **_offers_of(add, offers)}


def absolute(exist: Mapping[str, int], offers: Offers) -> dict[str, object]:
    """Body part of an absolute MAU."""
    return {"exist": list(exist), "hints": list(exist.values()), **_offers_of(exist, offers)}


def _offers_of(keys: Mapping[str, int], offers: Offers) -> dict[str, object]:
    announced = {key: offers[key] for key in keys if key in offers} if offers else {}
    return {OFFERS: announced} if announced else {}


def seen_list(ids: Collection[str]) -> list[str]:
    """The `seen` of a HELLO."""
    return sorted(ids)
