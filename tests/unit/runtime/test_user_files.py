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
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.sasl.users import UserFiles


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


def test_a_file_whose_path_cannot_be_followed_is_an_error_and_keeps_the_users(tmp_path: Path) -> None:
    """As in a folder that may not be searched; a traceback ended the start, or the look at other changed files."""
    router = {"saslConfigDir": str(tmp_path), "saslConfigName": "mesh"}
    file, lines = tmp_path / "mesh.users", list[str]()
    file.write_text("alice:{plain}pass\n", encoding="utf-8")
    files = UserFiles(lambda level, text, _event=None, /: lines.append(f"{level}: {text}"))
    files.configure(router)
    file.unlink()
    file.symlink_to("x" * 300)
    files.poll()
    assert re.fullmatch(r"error: .*File name too long.*; the users read before stay in use", lines[-1])
    users = files.authenticator({})
    assert users is not None
    assert users.lookup("alice") is not None
    with pytest.raises(HostError, match="File name too long"):
        UserFiles(lambda *_: None).configure(router)
    with pytest.raises(HostError, match="no such file, or not accessible"):
        files.add({"name": "l", "usersFile": str(file)})
