"""`waymesh user`: what it makes logs in; the password is shown nowhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from waymesh_amqp.sasl import MECHANISMS, Challenge, SaslClient, SaslServer
from waymesh_amqp.users import UserFile

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
        (["alice", "--mechanism", "PLAIN"], "x", "possible are SCRAM-SHA-512"),
        (["alice", "-f", "/missing/mesh.users"], "x", "/missing/mesh.users: No such file"),
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
