"""A router that starts with an access policy from its files; policy over management; `--dump`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.files import replace_file
from tests.kit.ports import free_port
from tests.kit.process import START_S, RouterProcess, command, section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_operator.cli.main import run_command
from waymesh_router.runtime.main import main
from waymesh_schema.config import parse_json

VHOST = """vhost {
    hostname: $default
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: localhost, 10.0.0.0-10.0.0.255   # a name is looked up
            sources: *
            targets: *
            allowDynamicSource: yes
            allowAnonymousSender: yes
        }
    }
}
"""


def text_of(folder: Path, port: int) -> str:
    (folder / "policies").mkdir()
    more = [["vhost", {"hostname": "b", "groups": {"g": {"users": ["ann"]}}}], ["vhost", {"id": "c"}]]
    (folder / "policies" / "more.json").write_text(json.dumps(more), encoding="utf-8")
    policy = section("policy", maxConnections=50, enableVhostPolicy="yes", policyDir=folder / "policies")
    return section("router", id="A") + policy + VHOST + section("listener", host="127.0.0.1", port=port)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RouterProcess]:
    port = free_port()
    router = RouterProcess(tmp_path, "A", text_of(tmp_path, port), [port])
    router.start()
    try:
        yield router
    finally:
        router.stop()


def test_vhosts_of_the_file_and_of_the_folder_are_there(router: RouterProcess) -> None:
    with ManagementClient(router.url) as client:
        assert {row["hostname"] for row in client.query("vhost", ["hostname"])} == {"$default", "b", "c"}
        assert {row["hostname"] for row in client.query("vhostStats", ["hostname"])} == {"$default", "b", "c"}
        policy = client.read("policy")
        assert (policy["maxConnections"], policy["enableVhostPolicy"]) == (50, True)


def test_vhosts_change_over_management(router: RouterProcess) -> None:
    with ManagementClient(router.url) as client:
        made = client.create("vhost", {"hostname": "n", "groups": {"g": {"users": "ann", "remoteHosts": "10.0.0.1"}}})
        assert made["groups"]["g"]["remoteHosts"] == "10.0.0.1"
        with pytest.raises(ManagementError, match="must stand alone") as refused:
            client.update({"groups": {"g": {"remoteHosts": "10.*"}}}, "vhost", name="vhost/n")
        assert refused.value.status == 400
        with pytest.raises(ManagementError, match=r"cannot resolve nowhere\.invalid") as refused:
            client.update({"groups": {"g": {"remoteHosts": "nowhere.invalid"}}}, "vhost", name="vhost/n")
        assert refused.value.status == 400
        assert client.read("vhost", name="vhost/n")["groups"] == made["groups"]
        assert client.update({"groups": {}}, "vhost", name="vhost/n")["groups"] == {}
        client.delete("vhost", name="vhost/n")
        assert {row["hostname"] for row in client.query("vhost", ["hostname"])} == {"$default", "b", "c"}
        assert client.update({"maxConnections": 60}, "policy")["maxConnections"] == 60


def hostnames(router: RouterProcess) -> set[str]:
    with ManagementClient(router.url) as client:
        return {row["hostname"] for row in client.query("vhost", ["hostname"])}


@pytest.mark.parametrize("signalled", [True, False], ids=["on SIGHUP", "when it changes"])
def test_files_of_the_folder_are_read_again(router: RouterProcess, tmp_path: Path, signalled: bool) -> None:
    file = tmp_path / "policies" / "more.json"
    groups = {"g": {"users": ["ann"], "remoteHosts": "localhost"}}  # a name is looked up
    vhosts = [["vhost", {"hostname": "c", "groups": groups}], ["vhost", {"hostname": "d"}]]
    replace_file(file, json.dumps(vhosts).encode())
    if signalled:
        os.kill(router.pid, signal.SIGHUP)
    wait_until(lambda: hostnames(router) == {"$default", "c", "d"})
    with ManagementClient(router.url) as client:
        assert client.read("vhost", name="vhost/c")["groups"]["g"]["remoteHosts"] == "localhost"
    assert "policyDir: vhost b deleted" in router.log


def test_a_file_that_cannot_be_read_leaves_the_vhosts_as_they_are(router: RouterProcess, tmp_path: Path) -> None:
    file = tmp_path / "policies" / "more.json"
    replace_file(file, b'[["vhost", {"hostname": "d"}], ["vhost"')
    os.kill(router.pid, signal.SIGHUP)
    wait_until(lambda: "the vhosts read before stay in force" in router.log)
    assert hostnames(router) == {"$default", "b", "c"}
    (tmp_path / "policies").rename(tmp_path / "gone")
    os.kill(router.pid, signal.SIGHUP)
    wait_until(lambda: "policies is not a folder; the vhosts read before stay in force" in router.log)
    assert hostnames(router) == {"$default", "b", "c"}


@pytest.mark.parametrize(
    ("option", "title", "part"),
    [
        ("--policy", "Policy Statistics", "Maximum Connections"),
        ("--vhosts", "Vhosts", "allowUnknownUser"),
        ("--vhostgroups", "Vhost Groups", "Vhost '$default' UserGroup '$default'"),
        ("--vhoststats", "Vhost Stats", "maxMessageSizeDenied"),
    ],
)
def test_the_tables_of_a_router(
    router: RouterProcess, capsys: pytest.CaptureFixture[str], option: str, title: str, part: str
) -> None:
    assert run_command(["stat", option, "-b", router.url]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{title}\n")
    assert part in out


def test_the_dump_starts_another_router(
    router: RouterProcess, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--dump", "--url", router.url]) == 0
    entries = parse_json(capsys.readouterr().out, "dump.json")
    vhosts = {entry.attributes["hostname"]: entry for entry in entries if entry.type.name == "vhost" and entry.line}
    assert set(vhosts) == {"$default", "b", "c"}
    assert vhosts["b"].attributes["groups"]["g"]["users"] == "ann"
    (policy,) = [entry for entry in entries if entry.type.name == "policy"]
    assert policy.attributes["policyDir"] == ""  # its vhosts are in the dump, and must not be loaded twice


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("sources: *", "sources: a*b", "t.conf:15: vhost groups.$default.sources: 'a*b': * is only allowed"),
        ("10.0.0.255", "9.0.0.1", "t.conf:9: vhost $default: groups.$default: remoteHosts: '10.0.0.0-9.0.0.1'"),
        ("hostname: $default", "hostname: b", "more.json:1: vhost hostname: 'b' already exists at line 9"),
    ],
)
def test_a_router_does_not_start_with_a_vhost_that_cannot_be_enforced(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    path = tmp_path / "t.conf"
    path.write_text(text_of(tmp_path, free_port()).replace(old, new), encoding="utf-8")
    done = subprocess.run([*command(), "-c", str(path)], capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 1
    assert reason in done.stderr
