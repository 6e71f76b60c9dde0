"""User files: lines, errors, and no secrets in texts."""

from __future__ import annotations

import base64
import re

import pytest

from waymesh_amqp.credentials import Credential
from waymesh_amqp.users import UserFile, make_line

pytestmark = pytest.mark.engine_independent

_KEY = base64.b64encode(b"k" * 32).decode()
_SALT = base64.b64encode(b"s" * 16).decode()

TEXT = f"""
# a comment
alice:{{plain}}p:a#s s}}word\x20
  bob:{{SCRAM-SHA-256}}4096,{_SALT},{_KEY},{_KEY}
alice:{{SCRAM-SHA-256}}8192,{_SALT},{_KEY},{_KEY}
"""


def test_users_of_a_file() -> None:
    users = UserFile.parse(TEXT)
    alice, bob = users.lookup("alice"), users.lookup("bob")
    assert alice is not None
    assert bob is not None
    assert alice.password == "p:a#s s}word "
    assert alice.keys["SCRAM-SHA-256"].iterations == 8192
    assert bob.password is None
    assert bob.keys["SCRAM-SHA-256"].salt == b"s" * 16
    assert users.lookup("carol") is None
    assert users.lookup("ALICE") is None


def test_line_ends_of_any_kind() -> None:
    users = UserFile.parse("a:{plain}x\r\nb:{plain}y\r\n")
    assert users.verify_plain("a", "x")
    assert users.verify_plain("b", "y")


def test_an_empty_file_has_no_users() -> None:
    users = UserFile.parse("")
    assert not users.verify_plain("", "")
    assert not users.serves("SCRAM-SHA-1")


@pytest.mark.parametrize("scheme", ["plain", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_made_lines_are_read(scheme: str) -> None:
    users = UserFile.parse(make_line("alice", "secret", scheme) + "\n")
    assert users.verify_plain("alice", "secret")
    assert not users.verify_plain("alice", "Secret")
    assert not users.verify_plain("bob", "secret")


def test_made_lines_have_salts_of_their_own() -> None:
    assert make_line("a", "b") != make_line("a", "b")
    assert make_line("a", "b", salt=b"0123456789ab") == make_line("a", "b", salt=b"0123456789ab")


WRONG = {
    "alice": ("", "expected name:"),
    "alice:secret": ("alice", "expected name:"),
    "alice:{plain": ("alice", "expected name:"),
    ":{plain}x": ("", "user name"),
    "ali ce :{plain}x": ("", "user name"),
    "\udcffalice:{plain}x": ("", "not valid Unicode"),
    "alice:{plain}": ("alice", "password is empty"),
    "alice:{md5}x": ("alice", "unknown scheme, expected plain"),
    "bob:{plain}again": ("bob", "has a plain password already"),
    f"bob:{{SCRAM-SHA-256}}4096,{_SALT},{_KEY},{_KEY}": ("bob", "has keys of SCRAM-SHA-256 already"),
    f"alice:{{SCRAM-SHA-256}}{_SALT},{_KEY},{_KEY}": ("alice", "expected iterations"),
    f"alice:{{SCRAM-SHA-256}}many,{_SALT},{_KEY},{_KEY}": ("alice", "iterations must be a number"),
    f"alice:{{SCRAM-SHA-256}}1,{_SALT},{_KEY},{_KEY}": ("alice", "iterations must be a number"),
    f"alice:{{SCRAM-SHA-256}}1000001,{_SALT},{_KEY},{_KEY}": ("alice", "iterations must be a number"),
    f"alice:{{SCRAM-SHA-256}}{'9' * 5000},{_SALT},{_KEY},{_KEY}": ("alice", "iterations must be a number"),
    f"alice:{{SCRAM-SHA-256}}4096,!,{_KEY},{_KEY}": ("alice", "base64"),
    f"alice:{{SCRAM-SHA-256}}4096,ä,{_KEY},{_KEY}": ("alice", "."),
    f"alice:{{SCRAM-SHA-256}}4096,AAAA,{_KEY},{_KEY}": ("alice", "salt must have at least 12"),
    f"alice:{{SCRAM-SHA-256}}4096,{_SALT},AAAA,{_KEY}": ("alice", "keys of SCRAM-SHA-256 have 32 bytes"),
    f"alice:{{SCRAM-SHA-1}}4096,{_SALT},{_KEY},{_KEY}": ("alice", "keys of SCRAM-SHA-1 have 20 bytes"),
    "alice:{plain}\ud800": ("alice", "not valid Unicode"),
}


@pytest.mark.parametrize(("line", "expected"), WRONG.items())
def test_a_wrong_line_is_named_and_disables_its_user_only(line: str, expected: tuple[str, str]) -> None:
    good = f"# comment\nbob:{{plain}}x\nbob:{{SCRAM-SHA-256}}4096,{_SALT},{_KEY},{_KEY}\n"
    users = UserFile.parse(good + line + "\ncarol:{plain}x\nalice:{SCRAM-SHA-512}4096,,,\n")
    (problem, *_) = users.problems
    assert (problem.line, problem.user) == (4, expected[0])
    assert re.search(expected[1], problem.reason)
    assert str(problem).startswith("line 4: ")
    assert users.lookup("carol") == Credential("x")
    assert users.lookup("alice") is None
    assert (users.lookup("bob") is None) == (expected[0] == "bob")


def test_a_reason_tells_nothing_of_passwords() -> None:
    users = UserFile.parse("a:hunter2\nb:{hunter2}\nc:{plain\nd:{SCRAM-SHA-1}hunter2,hunter2,hunter2,hunter2\n")
    assert len(users.problems) == 4
    assert "hunter2" not in str([str(problem) for problem in users.problems])


@pytest.mark.parametrize(
    ("user", "password", "scheme"),
    [
        ("", "x", "plain"),
        ("a:b", "x", "plain"),
        ("a\n", "x", "plain"),
        ("#a", "x", "plain"),
        ("a", "", "plain"),
        ("a", "x\ny", "plain"),
        ("a", "x\n", "plain"),
        ("a", "x\x0b", "plain"),
        ("a", "x\0", "plain"),
        ("a", "x", "md5"),
        ("a", "x\x07", "SCRAM-SHA-1"),
    ],
)
def test_lines_that_cannot_be_made(user: str, password: str, scheme: str) -> None:
    with pytest.raises(ValueError):
        make_line(user, password, scheme)


def test_secrets_are_not_shown() -> None:
    shown = repr(UserFile.parse(TEXT).lookup("alice"))
    assert "word" not in shown
    assert repr(b"k" * 32) not in shown
