"""`waymesh policy check`: the verdict of files, and what decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from waymesh_operator.cli.main import run_command
from waymesh_router.runtime.commands.policy import NO_SECTION, main

pytestmark = pytest.mark.engine_independent

TEXT = """policy {
    enableVhostPolicy: yes
    enableVhostNamePatterns: yes
    defaultVhost: example.com
}
vhost {
    hostname: example.com
    aliases: www.example.com
    allowUnknownUser: yes
    groups: {
        admin: {
            users: alice, bob
            remoteHosts: 127.0.0.1, ::1
            sources: *
            targets: *
            management: read
        }
        $default: {
            remoteHosts: *
            management: none
            sources: news*, ${user}.*
            targetPattern: chat.*, ${user}.in
        }
    }
}
vhost {
    hostname: *.example.org
    groups: {
        team: {
            users: carl
            remoteHosts: *
        }
    }
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "t.conf"
    path.write_text(TEXT, encoding="utf-8")
    return path


def words(file: Path, user: str, host: str, hostname: str, attach: str, direction: str) -> list[str]:
    options = {"user": user, "host": host, "hostname": hostname, "attach": attach, "direction": direction}
    return [f"--filename={file}", *(f"--{name}={value}" for name, value in options.items())]


@pytest.mark.parametrize(
    ("asked", "code", "reasons"),
    [
        (
            ("alice", "127.0.0.1", "example.com", "x", "out"),
            0,
            [
                "has the host name 'example.com'",
                "group admin: lists user 'alice'",
                "management: read, or less if the listener says so",
                "targets allow 'x': '*'",
            ],
        ),
        (
            ("alice", "10.0.0.1", "example.com", "x", "in"),
            1,
            ["vhost example.com: has", "connection denied: vhost example.com, group admin: host 10.0.0.1 is not"],
        ),
        (
            ("carl", "10.0.0.1", "www.example.com", "carl.x", "in"),
            0,
            [
                "has the alias 'www.example.com'",
                "group $default: no group lists user 'carl'; allowUnknownUser is yes",
                "sources allow 'carl.x': '${user}.*'",
            ],
        ),
        (
            ("carl", "10.0.0.1", "nowhere", "carl.in", "out"),
            0,
            ["is the defaultVhost", "management: none\n", "targetPattern allow 'carl.in': '${user}.in'"],
        ),
        (
            ("carl", "10.0.0.1", "example.com", "chat", "out"),
            1,
            ["link denied: targetPattern have no rule for 'chat': chat.*, ${user}.in"],
        ),
        (
            ("carl", "::1", "a.example.org", "x", "in"),
            1,
            ["its pattern '*.example.org' matches", "management: set by the", "link denied: sources have no rule"],
        ),
        (("dora", "::1", "a.example.org", "x", "in"), 1, ["user 'dora' is in no group"]),
    ],
)
def test_the_verdict_and_what_decides(
    file: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, str, str, str, str], code: int, reasons: list[str]
) -> None:
    assert main(words(file, *asked)) == code
    out = capsys.readouterr().out
    assert out.startswith(("allowed\n", "denied\n")[code])
    places = [out.index(reason) for reason in reasons]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("user", "groups", "code", "reason"),
    [
        ("erin", ["admin"], 0, "group admin: no group lists user 'erin'; the token names it"),
        ("alice", ["$default"], 0, "group admin: lists user 'alice'"),
        ("erin", ["other"], 1, "group $default: no group lists user 'erin'; allowUnknownUser is yes"),
        ("erin", ["staff", "admin"], 1, "user 'erin' has a token with several groups: admin, staff"),
    ],
)
def test_groups_of_a_token_choose_the_group(
    file: Path, capfd: pytest.CaptureFixture[str], user: str, groups: list[str], code: int, reason: str
) -> None:
    staff = "        staff: {\n            remoteHosts: *\n        }\n        $default"
    file.write_text(TEXT.replace("        $default", staff), encoding="utf-8")
    named = [f"--token-group={group}" for group in groups]
    assert run_command(["policy", "check", *words(file, user, "::1", "example.com", "x", "out"), *named]) == code
    assert reason in capfd.readouterr().out


def test_client_cannot_name_a_vhost_of_a_listener(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As at a router. With the policyVhost of its listener, this vhost applies."""
    file.write_text(TEXT.replace("hostname: *.example.org", "hostname: $management"), encoding="utf-8")
    asked = words(file, "carl", "::1", "$management", "x", "out")
    assert main(asked) == 1
    out = capfd.readouterr().out
    assert "host name '$management': counts as none" in out
    assert "vhost example.com: is the defaultVhost; no other has the host name ''" in out
    assert run_command(["policy", "check", *asked, "--policy-vhost", "$management"]) == 1
    assert "vhost $management: has the host name" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("attach", "direction", "code", "reason"),
    [
        ("/carl.in", "out", 0, "targetPattern allow 'carl.in': '${user}.in'"),
        ("amqp://host/carl.in", "out", 0, "targetPattern allow 'carl.in': '${user}.in'"),
        ("amqp:/other", "out", 1, "targetPattern have no rule for 'other'"),
        ("", "out", 1, "link denied: allowAnonymousSender is no"),
        ("", "in", 1, "link denied: sources do not have the address"),
    ],
)
def test_addresses_are_read_as_at_a_router(
    file: Path, capsys: pytest.CaptureFixture[str], attach: str, direction: str, code: int, reason: str
) -> None:
    assert main(words(file, "carl", "::1", "example.com", attach, direction)) == code
    assert reason in capsys.readouterr().out


def test_anonymous_sender_is_allowed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("management: none", "allowAnonymousSender: yes"), encoding="utf-8")
    assert main(words(file, "carl", "::1", "example.com", "", "out")) == 0
    assert "allowAnonymousSender is yes" in capsys.readouterr().out


def test_without_vhost_policy_all_is_allowed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("enableVhostPolicy: yes", ""), encoding="utf-8")
    assert main(words(file, "dora", "::1", "a.example.org", "x", "in")) == 0
    assert "enableVhostPolicy is no" in capsys.readouterr().out


def test_files_of_a_policy_folder_are_checked_as_if_enforced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "v.json"
    groups = {"g": {"users": ["ann"], "remoteHosts": ["10.0.0.1-10.0.0.9"], "sources": ["a", "b"]}}
    path.write_text(json.dumps([["vhost", {"hostname": "v", "groups": groups}]]), encoding="utf-8")
    assert main(words(path, "ann", "10.0.0.5", "v", "b", "in")) == 0
    found = capsys.readouterr()
    assert "sources allow 'b': 'b'" in found.out
    assert NO_SECTION in found.err
    assert main(words(path, "ann", "10.0.0.10", "v", "b", "in")) == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("news*", "*news", "t.conf:21: vhost groups.$default.sources: '*news': * is only allowed at the end"),
        ("127.0.0.1", "127.0.*", "vhost example.com: groups.admin: remoteHosts: '127.0.*': * must stand alone"),
        ("policy {", "polcy {", "t.conf:1: polcy: no such entity type"),
    ],
)
def test_a_file_that_cannot_be_enforced_is_an_error(
    file: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, reason: str
) -> None:
    file.write_text(TEXT.replace(old, new), encoding="utf-8")
    assert main(words(file, "alice", "::1", "example.com", "x", "in")) == 2
    found = capsys.readouterr()
    assert reason in found.err
    assert found.out == ""


def test_the_command_passes_verdict_and_exit_code_on(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["-f", str(file), "--user", "alice", "--attach", "x", "--direction", "in"]
    assert run_command(["policy", "check", *options, "--host", "::1"]) == 0
    assert capfd.readouterr().out.startswith("allowed\nvhost example.com: is the defaultVhost")
    assert run_command(["policy", "check", *options, "--host", "10.0.0.1"]) == 1
    assert run_command(["policy", "check", *options, "--host", "a.name"]) == 2
    assert capfd.readouterr().err.endswith(
        "waymesh policy check: error: argument --host: must be a numeric address, not 'a.name'\n"
    )
    assert run_command(["policy", "check", *options]) == 2


def test_a_dry_run_says_what_would_be_denied(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TEXT.replace("allowUnknownUser: yes", "allowUnknownUser: yes\n    dryRun: yes", 1)
    file.write_text(text, encoding="utf-8")
    assert main(words(file, "alice", "10.0.0.1", "example.com", "x", "in")) == 0
    out = capsys.readouterr().out
    assert "vhost example.com: dryRun is yes: denials are counted and logged, but not enforced" in out
    assert "would deny connection: vhost example.com, group admin: host 10.0.0.1 is not allowed" in out
    assert main(words(file, "carl", "10.0.0.1", "example.com", "x", "in")) == 0
    assert "would deny link: sources have no rule for 'x'" in capsys.readouterr().out


def test_the_rates_of_a_user_are_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = "userConnectionRates: {\n        alice: 9/60\n    }"
    rates = f"allowUnknownUser: yes\n    connectionRatePerUser: 5/60\n    {own}"
    file.write_text(TEXT.replace("allowUnknownUser: yes", rates, 1), encoding="utf-8")
    for user, told in (("alice", "userConnectionRates 9/60: of user 'alice'"), ("bob", "connectionRatePerUser 5/60")):
        assert main(words(file, user, "127.0.0.1", "example.com", "x", "in")) == 0
        assert told in capsys.readouterr().out
