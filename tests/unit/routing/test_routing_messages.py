"""Control bodies (inter-router.md, "Control messages", "Address keys"): accepted and refused ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waymesh_router.routing import messages
from waymesh_router.routing.effects import LogEvent
from waymesh_router.routing.engine import RoutingEngine
from waymesh_router.routing.settings import RoutingSettings

pytestmark = pytest.mark.engine_independent

BASE: dict[str, Any] = {"id": "B", "pv": 1, "area": "0"}
LS = {"id": "B", "area": "0", "ls_seq": 4, "peers": {"A": 1, "C": 7}}
GOOD: dict[str, dict[str, Any]] = {
    "HELLO": BASE | {"instance": 7, "seen": ["A", "C"]},
    "RA": BASE | {"instance": 7, "ls_seq": 4, "mobile_seq": 2},
    "LSU": BASE | {"instance": 7, "ls_seq": 4, "ls": LS},
    "LSR": BASE,
    "MAU": BASE | {"mobile_seq": 3, "hints": [3, 2], "add": ["M0a", "Cb"], "del": ["M0c"]},
    "MAR": BASE | {"have_seq": 2},
}


class Narrow(int):
    """As the codec gives an AMQP int."""


class Symbolic(str):
    """As the codec gives a symbol."""

    __slots__ = ()


def test_forms_are_read() -> None:
    assert messages.parse("HELLO", GOOD["HELLO"]) == messages.Hello("B", 1, 7, frozenset({"A", "C"}))
    assert messages.parse("RA", GOOD["RA"]) == messages.Ra("B", 1, 7, 4, 2)
    assert messages.parse("LSU", GOOD["LSU"]) == messages.Lsu("B", 1, 7, 4, {"A": 1, "C": 7})
    assert messages.parse("LSR", GOOD["LSR"]) == messages.Lsr("B", 1)
    assert messages.parse("MAU", GOOD["MAU"]) == messages.Mau("B", 3, None, {"M0a": 3, "Cb": 2}, ["M0c"])
    assert messages.parse("MAR", GOOD["MAR"]) == messages.Mar("B", 2)


def test_symbol_keys_and_any_integer_width() -> None:
    body: dict[str, object] = {
        Symbolic(key): Narrow(value) if isinstance(value, int) else value for key, value in GOOD["RA"].items()
    }
    ra = messages.parse("RA", body)
    assert ra == messages.Ra("B", 1, 7, 4, 2)


def test_absolute_update() -> None:
    body = BASE | {"mobile_seq": 9, "exist": ["M0a", "Fb"], "hints": [0, 1]}
    assert messages.parse("MAU", body) == messages.Mau("B", 9, {"M0a": 0, "Fb": 1}, {}, [])


@pytest.mark.parametrize("hints", [[2], [2, 2, 2], None, "22"])
def test_hints_of_another_length_are_ignored(hints: object) -> None:
    mau = messages.parse("MAU", BASE | {"mobile_seq": 9, "exist": ["M0a", "M0b"], "hints": hints})
    assert isinstance(mau, messages.Mau)
    assert mau.exist == dict.fromkeys(["M0a", "M0b"], messages.NO_HINT_TREATMENT)


def test_a_hint_out_of_range_is_no_hint() -> None:
    mau = messages.parse("MAU", BASE | {"mobile_seq": 9, "exist": ["M0a", "M0b", "M0c"], "hints": [-1, 6, 5]})
    assert isinstance(mau, messages.Mau)
    assert mau.exist == {"M0a": 3, "M0b": 3, "M0c": 5}


def test_only_classes_that_travel_are_taken() -> None:
    keys = ["M0a", "Cp", "Dp", "Ep", "Fp", "Hx", "Lqdhello", "Tx", "RB", "A0", "M", ""]
    mau = messages.parse("MAU", BASE | {"mobile_seq": 9, "exist": keys})
    assert isinstance(mau, messages.Mau)
    assert list(mau.exist or ()) == ["M0a", "Cp", "Dp", "Ep", "Fp", "Hx"]


BROKEN: list[tuple[str, dict[str, Any]]] = [
    *[
        (opcode, {other: value for other, value in body.items() if other != key})
        for opcode, body in GOOD.items()
        for key in body
        if key not in ("pv", "area", "instance", "hints") and (opcode, key) != ("LSU", "ls_seq")
    ],
    *[(opcode, body | {"id": wrong}) for opcode, body in GOOD.items() for wrong in (None, 7, "", b"B")],
    *[(opcode, body | {"pv": "1"}) for opcode, body in GOOD.items()],
    ("RA", GOOD["RA"] | {"ls_seq": -1}),
    ("RA", GOOD["RA"] | {"ls_seq": True}),
    ("RA", GOOD["RA"] | {"mobile_seq": 1.5}),
    ("RA", GOOD["RA"] | {"instance": 1 << 63}),
    ("HELLO", GOOD["HELLO"] | {"seen": "A"}),
    ("HELLO", GOOD["HELLO"] | {"seen": ["A", 3]}),
    ("LSU", GOOD["LSU"] | {"ls": [1]}),
    ("LSU", GOOD["LSU"] | {"ls": LS | {"id": "C"}}),
    ("LSU", GOOD["LSU"] | {"ls": LS | {"peers": ["A"]}}),
    ("LSU", GOOD["LSU"] | {"ls": LS | {"peers": {"A": 0}}}),
    ("LSU", GOOD["LSU"] | {"ls": LS | {"peers": {"A": "1"}}}),
    ("LSU", GOOD["LSU"] | {"ls": LS | {"peers": {7: 1}}}),
    ("LSU", GOOD["LSU"] | {"ls": {"id": "B", "peers": {}}}),
    ("MAU", GOOD["MAU"] | {"exist": []}),
    ("MAU", GOOD["MAU"] | {"add": "M0a"}),
    ("MAU", GOOD["MAU"] | {"del": [None]}),
    ("XYZ", BASE),
]


@pytest.mark.parametrize(("opcode", "body"), BROKEN)
def test_what_has_not_the_form_is_logged_and_changes_nothing(opcode: str, body: dict[str, Any]) -> None:
    with pytest.raises(messages.BadBody):
        messages.parse(opcode, body)
    engine = RoutingEngine(RoutingSettings("A", instance=1), 0.0)
    engine.link_up(1, 1, 0.0)
    before = engine.deadline()
    effects = engine.on_control(1, opcode, body, 0.0)
    assert [type(effect) for effect in effects] == [LogEvent]
    assert not engine.nodes
    assert engine.deadline() == before


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["A", "B", "M0a", "id", "peers"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    ["id", "pv", "instance", "seen", "ls_seq", "mobile_seq", "ls", "have_seq", "add", "del", "exist", "hints", "peers"]
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([*GOOD, "?"]), st.dictionaries(keys, anything), st.booleans()), max_size=8))
def test_no_body_ever_raises(received: list[tuple[str, dict[str, Any], bool]]) -> None:
    engine = RoutingEngine(RoutingSettings("A", instance=1), 0.0)
    engine.link_up(1, 1, 0.0)
    for turn, (opcode, body, repair) in enumerate(received):
        whole = GOOD.get(opcode, {}) | body if repair else body
        engine.on_control(1, opcode, whole, float(turn))
        engine.tick(float(turn))


def test_no_map_is_malformed() -> None:
    engine = RoutingEngine(RoutingSettings("A", instance=1), 0.0)
    effects = engine.on_control(1, "RA", [1], 0.0)  # type: ignore[arg-type]
    assert [type(effect) for effect in effects] == [LogEvent]


def test_a_higher_protocol_version_is_ignored_and_logged_once() -> None:
    engine = RoutingEngine(RoutingSettings("A", instance=1), 0.0)
    engine.link_up(1, 1, 0.0)
    hello = GOOD["HELLO"] | {"pv": 2}
    first = engine.on_control(1, "HELLO", hello, 0.0)
    assert [effect.level for effect in first if isinstance(effect, LogEvent)] == ["warning"]
    assert engine.on_control(1, "HELLO", hello, 0.1) == []
    assert engine.on_control(1, "RA", GOOD["RA"] | {"pv": 2}, 0.1) == []
    assert not engine.nodes


def test_offers_of_a_mau_are_read_and_what_makes_no_sense_is_left_out() -> None:
    offer = {"capabilities": ["SHARED-SUBS"], "naming": {}}
    body = messages.base_body("B", "0") | {"mobile_seq": 1}
    told = body | messages.differential({"Cb": 4, "Cc": 4}, [], {"Cb": offer, "Cx": offer})
    assert messages.parse("MAU", told).offers == {"Cb": offer}  # type: ignore[union-attr]
    told = body | messages.absolute({"Cb": 4}, {"Cb": offer})
    assert messages.parse("MAU", told).offers == {"Cb": offer}  # type: ignore[union-attr]
    assert messages.OFFERS not in messages.absolute({"Cc": 4}, {"Cb": offer})
    for wrong in ("x", [1], {"Cb": 3}):
        assert messages.parse("MAU", told | {messages.OFFERS: wrong}).offers == {}  # type: ignore[union-attr]
