"""The users file that the operator makes of a Secret: keys alone, and routers accept every line of it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waymesh_amqp.users import UserFile, make_line
from waymesh_operator.router_entities.credentials import USERS_FILE, KeptKeys, unusable_users, users_file

pytestmark = pytest.mark.engine_independent

SALT, KEY = (base64.b64encode(text * count).decode() for text, count in ((b"s", 16), (b"k", 32)))
ENTROPY = b"e" * 32


def made(secret: dict[str, bytes], now: str = "", entropy: bytes = ENTROPY) -> str:
    """The users file of a Secret, where routers have `now`."""
    return users_file(secret, KeptKeys(now.encode(), entropy))[USERS_FILE].decode()


def stored(user: str, password: str, *mechanisms: str) -> str:
    """What `waymesh user` prints."""
    return "".join(make_line(user, password, name) + "\n" for name in mechanisms)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (f"{{SCRAM-SHA-256}}1,{SALT},{KEY},{KEY}", "iterations must be a number from 4096 to 1000000"),
        (f"{{SCRAM-SHA-256}}20000000,{SALT},{KEY},{KEY}", "iterations must be a number from 4096 to 1000000"),
        (f"{{SCRAM-SHA-256}}4096,c2FsdA==,{KEY},{KEY}", "the salt must have at least 12 bytes"),
        (f"{{SCRAM-SHA-512}}4096,{SALT},{KEY},{KEY}", "keys of SCRAM-SHA-512 have 64 bytes"),
        (f"{{SCRAM-SHA-256}}4096,{SALT},???,{KEY}", "salt and keys must be base64"),
        ("{SCRAM-SHA-256}", "expected iterations,salt,stored key,server key"),
        ("{SCRAM-SHA-384}x", "unknown scheme, expected plain or one of SCRAM-SHA-512, SCRAM-SHA-256, SCRAM-SHA-1"),
        (f"{{SCRAM-SHA-256}}4096,{SALT},{KEY},{KEY}\nbob:{{plain}}x", "stored keys, and a line that has none"),
        (f"{{SCRAM-SHA-256}}4096,{SALT},{KEY},{KEY}\n" * 2, "the user has keys of SCRAM-SHA-256 already"),
        ("", "not a single line of text"),
        ("a\nb", "not a single line of text"),
        ("bell\a", "the password has characters that SASL does not allow"),
    ],
)
def test_what_a_router_would_refuse_is_left_out_with_the_reason(value: str, reason: str) -> None:
    good = stored("bob", "secret", "SCRAM-SHA-256")
    secret = {"eve": value.encode(), "bob": good.removeprefix("bob:").encode(), "alice": b"pass\n"}
    assert unusable_users(secret) == {"eve": reason}
    text = made(secret)
    assert text.endswith(good)
    assert {line.partition(":")[0] for line in text.splitlines()} == {"alice", "bob"}


_VALUES = st.binary(max_size=12) | st.builds(
    "{{SCRAM-SHA-{}}}{},{},{},{}".format,
    st.sampled_from(["1", "256", "512", "0"]),
    st.sampled_from(["4096", "0", "10000001", "x", "٤٠٩٦"]),
    *[st.sampled_from([SALT, KEY, "", "!"])] * 3,
).map(str.encode)


@settings(deadline=None)
@given(st.dictionaries(st.from_regex(r"[-._a-zA-Z0-9]{1,8}", fullmatch=True) | st.text(max_size=4), _VALUES))
def test_a_router_takes_every_line_that_the_operator_writes(secret: dict[str, bytes]) -> None:
    text = made(secret)
    users = UserFile.parse(text)
    assert users.problems == ()
    assert all(users.lookup(user) for user in secret.keys() - unusable_users(secret).keys())
    assert "{plain}" not in text
    assert made(secret, text, b"other") == text


def test_of_two_names_that_look_the_same_one_is_left_out() -> None:
    secret = {"ﬁ": b"x", "fi": b"y"}
    assert unusable_users(secret) == {"ﬁ": "the same name as another one in the Secret after normalisation"}
    assert UserFile.parse(made(secret)).verify_plain("fi", "y")


def test_passwords_become_keys_with_which_all_mechanisms_of_listeners_work() -> None:
    text = made({"alice": b"p\xc3\xa4ssword"})
    users = UserFile.parse(text)
    assert "ssword" not in text
    assert [line.partition("}")[0] for line in text.splitlines()] == ["alice:{SCRAM-SHA-512", "alice:{SCRAM-SHA-256"]
    assert users.verify_plain("alice", "pässword")
    assert not users.verify_plain("alice", "password")
    assert users.serves("SCRAM-SHA-512")
    assert users.serves("SCRAM-SHA-256")


def test_keys_change_with_the_password_alone_and_so_do_salts() -> None:
    first = made({"alice": b"one", "bob": b"two"})
    salts = {line.split(",")[1] for line in first.splitlines()}
    assert len(salts) == 4
    changed = made({"alice": b"new", "bob": b"two", "eve": b"x"}, first, b"other")
    assert changed.splitlines()[2:4] == first.splitlines()[2:]
    assert not salts & {line.split(",")[1] for line in changed.splitlines()[:2]}
    users = UserFile.parse(changed)
    assert users.verify_plain("alice", "new")
    assert not users.verify_plain("alice", "one")
    assert "eve:" not in made({"alice": b"new"}, changed)
    assert made({"alice": b"one"}, changed, b"third").splitlines() != first.splitlines()[:2]


def test_keys_that_somebody_else_put_into_the_file_do_not_stay() -> None:
    """Each mechanism is checked: a foreign key of one of them would let in who knows another password."""
    first = made({"alice": b"one"})
    strong, weak = first.splitlines()
    foreign = make_line("alice", "backdoor", "SCRAM-SHA-256")
    now = f"{strong}\n{foreign}\nmallory:{{plain}}x\nalice:{{SCRAM-SHA-1}}broken\n"
    again = made({"alice": b"one"}, now, b"other")
    assert foreign not in again
    assert "mallory" not in again
    assert UserFile.parse(again).verify_plain("alice", "one")
    cheap = make_line("alice", "one", "SCRAM-SHA-256", salt=b"twelve bytes")
    assert cheap not in made({"alice": b"one"}, f"{strong}\n{cheap}\n")
    assert weak != cheap


def test_stored_keys_are_taken_as_they_are_with_or_without_the_name() -> None:
    lines = stored("alice", "secret", "SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1")
    assert made({"alice": lines.encode()}) == lines
    assert made({"alice": lines.replace("alice:", "").encode()}) == lines
    assert UserFile.parse(lines).verify_plain("alice", "secret")


def test_a_password_may_look_like_a_line_of_somebody_else() -> None:
    text = made({"alice": b"bob:{plain}x"})
    assert UserFile.parse(text).verify_plain("alice", "bob:{plain}x")
