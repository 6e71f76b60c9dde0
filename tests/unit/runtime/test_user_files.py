"""Invalid lines in a user file disable the login of these users only; the router starts."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import DEADLINE_S
from waymesh_amqp.users import make_line


def test_a_router_starts_with_a_bad_user_and_lets_the_others_in(tmp_path: Path) -> None:
    amqp, http = free_port(), free_port()
    bad = make_line("eve", "secret").replace("4096,", "99,")
    (tmp_path / "waymesh.users").write_bytes(f"alice:{{plain}}pass\n{bad}\nbob\n".encode() + b"carl:{plain}\xff\n")
    text = section("router", id="A", saslConfigDir=tmp_path, saslConfigName="waymesh")
    text += section("listener", host="127.0.0.1", port=amqp, saslMechanisms="PLAIN", allowInsecurePlain=True,
                    authenticatePeer=True)  # fmt: skip
    text += section("listener", name="http", host="127.0.0.1", port=http, http=True)
    router = RouterProcess(tmp_path, "A", text, [amqp, http]).start()
    try:
        with Client(router.url, user="alice", password="pass", allowed_mechs="PLAIN", allow_insecure_mechs=True):
            pass
        with pytest.raises(Exception, match=r"(?i)auth"):
            Client(router.url, user="eve", password="secret", allowed_mechs="PLAIN", allow_insecure_mechs=True)
        assert re.search(r"line 2: user eve: iterations must be .*; this user cannot log in", router.log)
        assert "line 3: expected name:" in router.log
        assert "line 4: user carl: not valid Unicode" in router.log
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=DEADLINE_S) as answer:
            assert b"\nwaymesh_users_refused 3\n" in answer.read()
    finally:
        router.stop()
