"""Configuration files with access policy: groups of vhosts, and the folder of vhosts."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from waymesh_schema.config import ConfigError, parse_conf, read_config

pytestmark = pytest.mark.engine_independent


def one(text: str, name: str) -> dict[str, Any]:
    (attributes,) = [entry.attributes for entry in parse_conf(text, "t") if entry.type.name == name and entry.line]
    return attributes


def test_groups_in_json_and_in_lines_of_the_book() -> None:
    """Dispatch book 3.6.5: example 2 writes groups without quotes and commas."""
    groups = '"$default": {"remoteHosts": "*", "targetPattern": "a/#"}'
    quoted = f"vhost {{\n name: $default\n groups: {{\n  # all\n  {groups}\n }}\n}}"
    lines = """vhost {
        name: $default
        groups: {
            # all
            $default: {
                remoteHosts: *  # any
                users: {user}-x
            }
            other-group: {
            }
        }
    }"""
    assert one(quoted, "vhost")["groups"]["$default"]["targetPattern"] == "a/#"
    found = one(lines, "vhost")["groups"]
    assert set(found) == {"$default", "other-group"}
    assert found["$default"]["remoteHosts"] == "*"
    assert found["$default"]["users"] == "{user}-x"


@pytest.mark.parametrize("value", ["a/#", "#", "a.#, b"])
def test_a_pattern_of_a_group_that_a_comment_would_cut_is_refused(value: str) -> None:
    text = f"vhost {{\n name: v\n groups: {{\n  a: {{\n   source-pattern: {value}\n  }}\n }}\n}}"
    with pytest.raises(ConfigError, match="t:5: vhost groups: source-pattern: `#` starts a comment here"):
        parse_conf(text, "t")
    commented = text.replace(value, "a.* # a comment")
    assert one(commented, "vhost")["groups"]["a"]["sourcePattern"] == "a.*"


def test_errors_in_groups_have_the_line_of_their_attribute() -> None:
    text = """vhost {
        hostname: v
        groups: {
            "a": {"users": "u"},
            "b": {"users": "u"}
        }
    }
    vhost {
        id: w
        groups: {
            my-group: {
                users: u
                max-senders: x
            }
        }
    }
    vhost {
        id: x
        allowUnknownUser: yes
        groups: {
            first: {
                users: u
            }
            other: {
                users: v, u
            }
            $default: {
            }
        }
    }"""
    with pytest.raises(ConfigError) as raised:
        parse_conf(text, "t")
    assert [str(problem) for problem in raised.value.problems] == [
        "t:3: vhost groups.b.users: user 'u' is also in group a",
        "t:13: vhost groups.my-group.maxSenders: must be a whole number, not 'x'",
        "t:25: vhost groups.other.users: user 'u' is also in group first",
    ]


def policy(tmp_path: Path, **files: object) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    main = tmp_path / "main.conf"
    main.write_text(
        f"vhost {{\n hostname: first\n}}\npolicy {{\n policyDir: {folder}\n}}\nlistener {{\n}}\n", encoding="utf-8"
    )
    return main


def test_the_policy_folder_adds_vhosts_in_the_order_of_its_files(tmp_path: Path) -> None:
    main = policy(tmp_path, b=[["vhost", {"hostname": "third"}]], a=[["vhost", {"hostname": "second"}]])
    (tmp_path / "policies" / "notes.txt").write_text("no policy", encoding="utf-8")
    entries = [entry for entry in read_config(main) if entry.line]
    assert [entry.attributes["hostname"] for entry in entries if entry.type.name == "vhost"] == [
        "first",
        "second",
        "third",
    ]
    assert [entry.type.name for entry in entries][-1] == "listener"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([["listener", {}]], "policies/a.json:1: listener: a policy folder may only contain vhosts"),
        ([["vhost", {}]], "policies/a.json:1: vhost hostname: is required"),
        (
            [["vhost", {"hostname": "first"}]],
            "policies/a.json:1: vhost hostname: 'first' already exists at line 1 of",
        ),
    ],
)
def test_bad_files_in_the_policy_folder(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_config(policy(tmp_path, a=content))
    assert str(raised.value).startswith(f"{tmp_path}/{message}")


def test_a_policy_folder_that_may_not_be_read_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a running router would delete its vhosts, and another vhost could allow their clients more."""
    path = policy(tmp_path, a=[["vhost", {"hostname": "second"}]])

    def refused(folder: str) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", folder)

    monkeypatch.setattr(os, "scandir", refused)
    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(ConfigError, match="policies cannot be read: Permission denied"):
        read_config(path)


def test_a_policy_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "t.conf"
    path.write_text("policy {\n policyDir: /nowhere/at/all\n}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="policy policyDir: /nowhere/at/all is not a folder"):
        read_config(path)
