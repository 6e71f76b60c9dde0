"""The table of binding keys against a plain search over all keys."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_router.core.exchanges.binding_keys import AMQP, MQTT, BindingKeys

pytestmark = pytest.mark.engine_independent

TOKENS = st.sampled_from(["a", "b", "", "*", "#"])
KEYS = st.lists(st.lists(TOKENS, min_size=1, max_size=5).map(".".join), max_size=12)
SUBJECTS = st.lists(st.sampled_from(["a", "b", "", "c"]), min_size=1, max_size=6).map(".".join)


def matches(key: list[str], tokens: list[str]) -> bool:
    if not key:
        return not tokens
    if key[0] == "#":
        return any(matches(key[1:], tokens[n:]) for n in range(len(tokens) + 1))
    return bool(tokens) and key[0] in ("*", tokens[0]) and matches(key[1:], tokens[1:])


@given(keys=KEYS, subject=SUBJECTS, removed=st.integers(0, 12))
def test_all_matching_keys_are_found_once(keys: list[str], subject: str, removed: int) -> None:
    table: BindingKeys[int] = BindingKeys(AMQP)
    for number, key in enumerate(keys):
        table.add(key, number)
    for number, key in enumerate(keys[:removed]):
        table.remove(key, number)
    left = range(min(removed, len(keys)), len(keys))
    wanted = [number for number in left if matches(keys[number].split("."), subject.split("."))]
    assert sorted(table.match(subject)) == wanted
    for number in left:
        table.remove(keys[number], number)
    assert table._root.empty()


@pytest.mark.parametrize(
    ("key", "subject", "found"),
    [
        ("sport/#", "sport", True),
        ("sport/#", "sport/a/b", True),
        ("sport/+", "sport/a", True),
        ("sport/+", "sport", False),
        ("+/a", "/a", True),
        ("*/a", "b/a", False),
        ("a.b", "a.b", True),
        ("#", "", True),
    ],
)
def test_keys_of_mqtt(key: str, subject: str, found: bool) -> None:
    table: BindingKeys[int] = BindingKeys(MQTT)
    table.add(key, 1)
    assert table.match(subject) == [1] * found


def test_a_key_of_mqtt_has_its_number_sign_at_the_end() -> None:
    table: BindingKeys[int] = BindingKeys(MQTT)
    with pytest.raises(ValueError, match="last token"):
        table.add("a/#/b", 1)
    assert table._root.empty()


def test_many_number_signs_do_not_make_a_match_slow() -> None:
    table: BindingKeys[int] = BindingKeys(AMQP)
    table.add(".".join(["#", "a"] * 30), 1)
    began = time.process_time()
    assert table.match(".".join(["a"] * 2000) + ".b") == []
    assert time.process_time() - began < 20  # of CPU, which a busy machine stretches; without the limit: years
