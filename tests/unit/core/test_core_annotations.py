"""Message annotations of routers: parsing, stripping, and those for the next router."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.types import Array, Raw, Symbol, UByte, encode
from waymesh_router.core.forwarding.annotations import (
    MAX_CLIENT_PAIRS,
    MAX_ROUTER_PAIRS,
    MAX_TRACE,
    MAX_VALUES,
    Annotations,
    local_annotations,
    meant_for,
    read_annotations,
    redirected,
    sampled,
    transit_section,
)


def section(**pairs: Any) -> bytes:
    """An encoded section; `_` in a key stands for `.` behind the prefix of the routers' own."""
    named = {Symbol(key.replace("qd_", "x-opt-qd.")): value for key, value in pairs.items()}
    return encode_message(Message(message_annotations=named, body_kind="value")).removesuffix(b"\x00\x53\x77\x40")


def pairs(data: bytes) -> dict[str, Any]:
    return {str(key): value for key, value in (decode_message(data).message_annotations or {}).items()} if data else {}


def read(data: bytes, trusted: bool = True, own: Annotations | None = None) -> Annotations:
    return read_annotations(data, "A", trusted, own)


def test_a_message_that_enters_here_gets_ingress_and_trace() -> None:
    told = pairs(transit_section(local_annotations("A", "orders", "1")))
    assert told == {"x-opt-qd.to": "orders", "x-opt-qd.phase": 1, "x-opt-qd.trace": ["0/A"], "x-opt-qd.ingress": "0/A"}


def test_another_routers_pairs_count_and_the_trace_grows() -> None:
    a = read(section(mine=1, qd_ingress="0/X", qd_trace=["0/X", "0/Y"], qd_to="orders", qd_phase=2))
    assert (a.ingress, a.trace, a.to, a.phase) == ("X", ("X", "Y"), "orders", "2")
    assert pairs(a.client) == {"mine": 1}
    assert pairs(transit_section(a)) == {
        "mine": 1,
        "x-opt-qd.to": "orders",
        "x-opt-qd.phase": 2,
        "x-opt-qd.trace": ["0/X", "0/Y", "0/A"],
        "x-opt-qd.ingress": "0/X",
    }


def test_a_clients_pairs_with_the_routers_prefix_are_dropped() -> None:
    a = read(section(mine=1, qd_ingress="0/X", qd_trace=["0/X"], qd_to="other"), trusted=False)
    assert (a.ingress, a.trace, a.to, a.plain) == ("A", (), None, False)
    assert pairs(a.client) == {"mine": 1}
    assert read(section(mine=1), trusted=False).plain


def test_the_address_of_the_link_goes_before_that_of_the_message() -> None:
    own = local_annotations("A", "of-link", "1")
    a = read(section(qd_ingress="0/X", qd_to="of-message"), own=own)
    assert (a.to, a.phase) == ("of-link", "1")


@pytest.mark.parametrize(
    ("given", "phase"), [(0, "0"), (9, "9"), (10, "0"), (-1, "0"), (22, "F"), ("1", "0")], ids=repr
)
def test_phases(given: Any, phase: str) -> None:
    assert read(section(qd_phase=given)).phase == phase


@pytest.mark.parametrize(
    ("given", "sid"),
    [([7, 1.0], 7), ([7, 0.5], 0), ([0, 1.0], 0), ([-1, 1.0], 0), (["7", 1.0], 0), ([7], 0), (7, 0)],
    ids=repr,
)
def test_samples_that_make_no_sense_are_ignored(given: Any, sid: int) -> None:
    assert read(section(qd_sample=given)).sid == sid


def test_a_trace_is_read_up_to_its_limit() -> None:
    assert len(read(section(qd_trace=[f"0/r{n}" for n in range(MAX_TRACE + 5)])).trace) == MAX_TRACE


def test_a_sample_is_told_to_the_next_router_once() -> None:
    first = sampled(local_annotations("A", "orders"), 7, 2.0, "A")
    assert pairs(transit_section(first))["x-opt-qd.sample"] == [7, 2.0]
    again = sampled(first, 8, 3.0, "A")
    assert pairs(transit_section(again))["x-opt-qd.sample"] == [8, 3.0]


def test_a_message_for_a_fallback_keeps_its_ingress_and_the_clients_pairs() -> None:
    a = redirected(read(section(mine=1, qd_ingress="0/X", qd_trace=["0/X"])), "MForders", "A")
    told = pairs(transit_section(a))
    assert (told["x-opt-qd.to"], told["x-opt-qd.phase"]) == ("orders", 22)
    assert (told["mine"], told["x-opt-qd.ingress"], told["x-opt-qd.trace"]) == (1, "0/X", ["0/X", "0/A"])


GOOD = section(mine=1)


@pytest.mark.parametrize(
    "data",
    [GOOD + b"\x40", GOOD[:-1], GOOD[:3] + b"\x40", GOOD[:3] + b"\xc1\x01\x01", GOOD[:3], b"\x00\x53\x72\xc0\x01\x00"],
    ids=["longer", "shorter", "null", "odd", "empty", "list"],
)
def test_sections_that_are_no_map_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read(data)


def test_values_of_clients_are_not_decoded() -> None:
    """Decoding a MiB of them takes a second, and nobody needs them here."""
    array = encode(Array(0x50, [UByte(1)] * 9))
    broken = array.replace(b"\x09\x50", b"\x09\x10")  # the elements are of no type of AMQP
    assert broken != array
    data = section(mine=Raw(array), qd_to="orders").replace(array, broken)
    own = read(data, trusted=False)
    assert own.client.endswith(broken)
    passed = read(data)
    assert (passed.to, passed.client) == ("orders", own.client)


def test_a_client_has_a_limited_number_of_annotations() -> None:
    most = {f"k{number}": 1 for number in range(MAX_CLIENT_PAIRS)}
    entered = read(section(**most), trusted=False)
    assert pairs(read(transit_section(entered)).client) == most, "other routers take what one has taken"
    for trusted, number in ((False, MAX_CLIENT_PAIRS + 1), (True, MAX_CLIENT_PAIRS + 100)):
        with pytest.raises(DecodeError, match="message-annotations"):
            read(section(**{f"k{n}": 1 for n in range(number)}), trusted)


def test_a_message_has_a_limited_number_of_annotations_of_routers() -> None:
    many = {f"qd_{number}": 1 for number in range(MAX_ROUTER_PAIRS)}
    assert read(section(**many, k=1)).client == read(section(k=1)).client
    with pytest.raises(DecodeError, match=f"more than {MAX_ROUTER_PAIRS} message-annotations of routers"):
        read(section(**many, qd_one_more=1))


def test_annotations_of_routers_from_a_client_are_not_decoded() -> None:
    data = section(**{f"qd_{number}": [[]] * (MAX_VALUES + 1) for number in range(100)}, k=1)
    assert read(data, trusted=False).client == read(section(k=1)).client


def test_an_annotation_of_routers_has_a_limited_number_of_values() -> None:
    assert read(section(qd_trace=["0/X"] * (MAX_VALUES - 1))).trace == ("X",) * MAX_TRACE
    with pytest.raises(DecodeError, match=f"more than {MAX_VALUES} values"):
        read(section(qd_trace=[[]] * (MAX_VALUES + 1)))


def test_a_message_that_is_meant_for_a_router_names_it_and_keeps_its_address() -> None:
    a = meant_for(local_annotations("B", "orders"), "A", "M0orders", "B")
    assert a is not meant_for(local_annotations("B", "orders"), "A", "M0orders", "B")
    sent = transit_section(a)
    assert (pairs(sent)["x-opt-qd.to"], pairs(sent)["x-opt-qd.phase"]) == ("_topo/0/A/orders", 39)
    here = read(sent)
    assert (here.to, here.phase, here.here) == ("orders", "0", True)
    on_the_way = read_annotations(sent, "C", True, None)
    assert (on_the_way.to, on_the_way.here) == ("_topo/0/A/orders", False)
    assert pairs(transit_section(on_the_way))["x-opt-qd.phase"] == 39


def test_a_message_to_a_router_itself_or_from_a_client_is_not_meant_for_its_consumers() -> None:
    assert not read(section(qd_to="_topo/0/A/orders")).here
    assert not read(section(qd_to="_topo/0/A/orders", qd_phase=39), trusted=False).here
    assert not local_annotations("A", "_topo/0/A/orders").here
