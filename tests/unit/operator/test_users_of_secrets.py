"""The user file that the operator creates from a Secret: routers accept each line, whatever the Secret contains."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_amqp.users import UserFile, make_line
from waymesh_operator.router_entities.credentials import users_file

pytestmark = pytest.mark.engine_independent

SALT, KEY = (base64.b64encode(text * count).decode() for text, count in ((b"s", 16), (b"k", 32)))


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
        ("", "not a single line of text"),
        ("a\nb", "not a single line of text"),
    ],
)
def test_what_a_router_would_refuse_is_left_out_with_the_reason(value: str, reason: str) -> None:
    good = make_line("bob", "secret").removeprefix("bob:")
    files, bad = users_file({"eve": value.encode(), "bob": good.encode(), "alice": b"pass\n"})
    assert bad == {"eve": reason}
    assert files == {"waymesh.users": f"alice:{{plain}}pass\nbob:{good}\n".encode()}


_VALUES = st.binary(max_size=12) | st.builds(
    "{{SCRAM-SHA-{}}}{},{},{},{}".format,
    st.sampled_from(["1", "256", "512", "0"]),
    st.sampled_from(["4096", "0", "10000001", "x", "٤٠٩٦"]),
    *[st.sampled_from([SALT, KEY, "", "!"])] * 3,
).map(str.encode)


@given(st.dictionaries(st.from_regex(r"[-._a-zA-Z0-9]{1,8}", fullmatch=True) | st.text(max_size=4), _VALUES))
def test_a_router_takes_every_line_that_the_operator_writes(secret: dict[str, bytes]) -> None:
    files, bad = users_file(secret)
    users = UserFile.parse(files["waymesh.users"].decode())
    assert users.problems == ()
    assert all(users.lookup(user) for user in secret.keys() - bad.keys())


def test_of_two_names_that_look_the_same_one_is_left_out() -> None:
    files, bad = users_file({"ﬁ": b"x", "fi": b"y"})
    assert bad == {"ﬁ": "the same name as another one in the Secret after normalisation"}
    assert files == {"waymesh.users": b"fi:{plain}y\n"}
