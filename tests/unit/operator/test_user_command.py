"""`waymesh user`: what it makes logs in; the password is shown nowhere."""

from __future__ import annotations

import base64
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from waymesh_amqp.sasl import MECHANISMS, Challenge, SaslClient, SaslServer
from waymesh_amqp.users import UserFile
from waymesh_operator.router_entities.credentials import USERS_FILE, KeptKeys, unusable_users, users_file

pytestmark = pytest.mark.engine_independent

CODE = "import sys; from waymesh_operator.cli.main import main; sys.argv[0] = 'waymesh'; main()"
PASSWORD = "pässword, to the end"


def user(*arguments: str, password: str = f"{PASSWORD}\n") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CODE, "user", *arguments]
    done = subprocess.run(command, input=password, capture_output=True, text=True, timeout=60, check=False)
    assert PASSWORD not in done.stdout + done.stderr
    return done


def logs_in(text: str, name: str, mechanism: str, password: str = PASSWORD) -> bool:
    """Whether a client can log in with this users file."""
    theirs, ours = SaslServer(MECHANISMS, UserFile.parse(text)), SaslClient([mechanism], name, password)
    step = theirs.init(*ours.select(theirs.offer()))
    while isinstance(step, Challenge):
        step = theirs.response(ours.challenge(step.data))
    return step.code == 0


def test_lines_on_stdout() -> None:
    done = user("alice")
    assert (done.returncode, done.stderr) == (0, "")
    for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"):
        assert logs_in(done.stdout, "alice", mechanism)
        assert not logs_in(done.stdout, "alice", mechanism, "other")


def test_chosen_mechanism_and_iterations() -> None:
    done = user("alice", "--mechanism", "SCRAM-SHA-1", "--iterations", "5000")
    assert done.stdout.startswith("alice:{SCRAM-SHA-1}5000,")
    assert len(done.stdout.splitlines()) == 1


def test_file_is_made_and_only_the_user_changes(tmp_path: Path) -> None:
    file = tmp_path / "mesh.users"
    assert user("alice", "-f", str(file)).stdout == f"{file}: user alice added\n"
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text(encoding="utf-8")
    file.write_bytes(b"# a comment\nbob:{plain}x\n\xff broken\n" + text.encode() + b" alice:{plain}old\n")
    file.chmod(0o640)
    done = user("alice", "-f", str(file), password="new")
    assert done.stdout == f"{file}: user alice changed\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert file.read_bytes().startswith(b"# a comment\nbob:{plain}x\n\xff broken\nalice:{SCRAM-SHA-512}")
    now = file.read_text(encoding="utf-8", errors="surrogateescape")
    assert logs_in(now, "alice", "SCRAM-SHA-256", "new")
    assert not logs_in(now, "alice", "SCRAM-SHA-256")
    assert logs_in(now, "bob", "PLAIN", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mesh.users"]


def test_users_are_listed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "mesh.users"
    file.write_bytes(b"# alice:{plain}x\nbob:{plain}x\ncarol:{md5}x\nd\x1b[2J:{plain}x\n\xff broken\n")
    user("alice", "-f", str(file))
    assert user("--list", "-f", str(file)).stdout == (
        "alice  SCRAM-SHA-512 SCRAM-SHA-256\nbob  plain\ncarol  unusable\nd\\x1b[2J  plain\n"
    )
    assert user("alice", "--remove", "-f", str(file)).stdout == f"{file}: user alice removed\n"
    assert file.read_bytes() == b"# alice:{plain}x\nbob:{plain}x\ncarol:{md5}x\nd\x1b[2J:{plain}x\n\xff broken\n"


def test_secret_with_keys_is_what_the_operator_takes() -> None:
    manifest = yaml.safe_load(user("alice", "--secret", "people", "-n", "shop", "-o", "yaml").stdout)
    assert manifest["kind"] == "Secret"
    assert manifest["metadata"] == {"name": "people", "namespace": "shop"}
    users = {name: base64.b64decode(text) for name, text in manifest["data"].items()}
    assert unusable_users(users) == {}
    text = users_file(users, KeptKeys(b"", b""))[USERS_FILE].decode()
    for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"):
        assert logs_in(text, "alice", mechanism)
    patch = yaml.safe_load(user("alice", "--secret", "people", "--remove").stdout)
    assert patch == {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "people"}, "data": {"alice": None}}


def test_a_link_to_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "link.users").symlink_to("real.users")
    assert user("alice", "-f", str(tmp_path / "link.users")).returncode == 0
    assert (tmp_path / "link.users").is_symlink()
    assert (tmp_path / "real.users").read_text(encoding="utf-8").startswith("alice:")


@pytest.mark.parametrize(
    ("arguments", "password", "reason"),
    [
        (["al:ice"], "x", "cannot be a user name"),
        (["#alice"], "x", "cannot be a user name"),
        (["alice"], "", "the password is empty"),
        (["alice"], "one\ntwo\n", "more than one line"),
        (["alice"], "a\tb", "control characters"),
        (["alice", "--mechanism", "PLAIN"], "x", "must be one of SCRAM-SHA-512"),
        (["alice", "-f", "/missing/mesh.users"], "x", "/missing/mesh.users: No such file"),
        (["alice", "-f", "/missing/mesh.users", "--remove"], "", "/missing/mesh.users: No such file"),
        (["alice", "-f", "/dev/null", "--remove"], "", "/dev/null: no user alice"),
        (["alice", "--remove"], "", "--remove takes --file or --secret"),
        (["alice", "--secret", "s", "-f", "f"], "x", "--file or --secret, not both"),
        (["alice", "--secret", "s", "-o", "json"], "x", "--output json: must be yaml"),
        (["alice@example", "--secret", "s"], "x", "cannot be a key of a Secret"),
        (["alice", "-n", "x"], "x", "--namespace is for --secret"),
        (["alice", "--list", "-f", "f"], "", "--list takes --file and no user"),
        (["--list"], "", "--list takes --file and no user"),
        ([], "x", "name a user"),
    ],
)
def test_refusals(arguments: list[str], password: str, reason: str) -> None:
    done = user(*arguments, password=password)
    assert done.returncode == 1
    assert reason in done.stderr
    assert done.stdout == ""


def test_terminal_does_not_echo_the_password() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", CODE, "user", "alice"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        shown = b""
        for prompt in (b"Password: ", b"Again: "):
            while prompt not in shown:
                shown += os.read(ours, 1024)
            os.write(ours, b"secret\n")
        assert process.stdout is not None
        lines = process.stdout.read().decode()
    os.close(ours)
    assert b"secret" not in shown
    assert logs_in(lines, "alice", "SCRAM-SHA-256", "secret")
