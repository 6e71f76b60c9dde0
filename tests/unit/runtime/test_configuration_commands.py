"""`waymesh-router --check` and `--dump`, and unusable profiles, as in Qpid Dispatch."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from waymesh_router.peers import mechanisms
from waymesh_router.runtime.main import main
from waymesh_schema.config import ConfigEntry, parse_json


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, list[str]]:
    """Exit code, stdout, lines of stderr."""
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err.splitlines()


def check(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> tuple[int, str, list[str]]:
    path = folder / "t.conf"
    path.write_text(text, encoding="utf-8")
    code, out, lines = run(capsys, "--check", "-c", str(path))
    return code, out.replace(str(folder), ""), [line.replace(str(folder), "") for line in lines]


def test_check_of_a_correct_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It does not listen: the port may be in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = section("router", id="A") + section("listener", host="127.0.0.1", port=server.getsockname()[1])
        text += section("log", module="DEFAULT", outputFile=tmp_path / "log")
        text += section("telemetry", path=tmp_path / "telemetry")
        assert check(capsys, tmp_path, text) == (0, "/t.conf: the configuration is correct\n", [])
    assert [path.name for path in tmp_path.iterdir()] == ["t.conf"]


def test_check_reads_the_keys_of_a_token_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file; a URL is not read."""
    profile = {"name": "t", "audience": "a", "issuer": "i"}
    router = section("router", id="A")
    remote = router + section("tokenProfile", **profile, keysUrl="https://127.0.0.1:1/keys")
    assert check(capsys, tmp_path, remote)[::2] == (0, [])
    code, _, (line,) = check(capsys, tmp_path, router + section("tokenProfile", **profile, keysFile="/missing"))
    assert code == 1
    assert "tokenProfile t: keysFile: /missing: No such file" in line


def test_check_tells_all_errors_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, lines = check(capsys, tmp_path, "router {\n mode: x\n}\nlistener {\n cost: x\n prot: 1\n}\n")
    assert (code, out) == (1, "")
    assert lines == [
        "waymesh-router: /t.conf:2: router mode: must be one of standalone, interior, edge, not 'x'",
        "waymesh-router: /t.conf:6: listener prot: no such attribute; did you mean port?",
        "waymesh-router: /t.conf:5: listener cost: must be a whole number, not 'x'",
    ]


def test_check_looks_into_files_and_at_services(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "sslProfile {\n name: p\n certFile: /nowhere/cert\n}\nlistener {\n port: no-such-service\n name: l\n}\n"
    text += "connector {\n name: c\n failoverUrls: amqp://\n}\n"
    code, _, lines = check(capsys, tmp_path, text + "listener {\n name: w\n port: 1\n httpRootDir: /nowhere\n}\n")
    assert code == 1
    assert lines == [
        "waymesh-router: /t.conf:1: sslProfile p: certFile: /nowhere/cert: No such file or directory",
        "waymesh-router: /t.conf:5: listener l: port: unknown service 'no-such-service'",
        "waymesh-router: /t.conf:13: listener w: httpRootDir: /nowhere: No such file or directory",
        "waymesh-router: /t.conf:9: connector c: failoverUrls: amqp:// has no host",
    ]


def test_a_vhost_of_a_listener_that_is_not_enforced_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = section("listener", name="l", host="127.0.0.1", port=1, policyVhost="v")
    code, _, lines = check(capsys, tmp_path, section("router", id="A") + listener)
    assert code == 0
    assert lines == [
        "waymesh-router: vhosts are ignored (policyVhost of listener l): all clients may use all addresses until the "
        "section policy has enableVhostPolicy: yes"
    ]
    policy = section("policy", enableVhostPolicy="yes") + section("vhost", hostname="v")
    assert check(capsys, tmp_path, section("router", id="A") + policy + listener)[::2] == (0, [])


def test_names_of_vhosts_and_connections_that_do_not_exist_are_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = section("listener", name="l", host="127.0.0.1", port=1, policyVhost="v")
    link = section("autoLink", name="in", address="a", direction="in", connection="c")
    link += section("linkRoute", prefix="r", direction="out", connection="c")
    policy = section("policy", enableVhostPolicy="yes", defaultVhost="gone")
    assert check(capsys, tmp_path, policy + listener + link) == (
        0,
        "/t.conf: the configuration is correct\n",
        [
            "waymesh-router: policy defaultVhost: there is no vhost gone: clients that match no other vhost are denied",
            "waymesh-router: listener l policyVhost: there is no vhost v: clients are denied",
            "waymesh-router: linkRoute r: is inactive, as there is no connector or listener named c",
            "waymesh-router: autoLink in: is inactive, as there is no connector or listener named c",
        ],
    )
    unnamed = section("listener", host="127.0.0.1", port=1, policyVhost="v")
    assert check(capsys, tmp_path, policy + unnamed)[2][1:] == [
        "waymesh-router: listener listener/127.0.0.1:1 policyVhost: there is no vhost v: clients are denied",
    ]
    connector = section("connector", name="c", host="127.0.0.1", port=1, role="route-container")
    wrong = section("connector", name="c", host="127.0.0.1", port=1)
    assert check(capsys, tmp_path, wrong + link)[::2] == (
        0,
        [
            f"waymesh-router: {item}: is inactive, as c has role normal; only connections with role "
            "route-container are used"
            for item in ("linkRoute r", "autoLink in")
        ],
    )
    policy = section("policy", enableVhostPolicy="yes")
    vhost = section("vhost", hostname="w", aliases="v")
    assert check(capsys, tmp_path, policy + vhost + listener + link + connector)[::2] == (0, [])
    patterns = section("policy", enableVhostPolicy="yes", enableVhostNamePatterns="yes")
    assert check(capsys, tmp_path, patterns + section("vhost", hostname="#") + listener)[::2] == (0, [])


def test_attributes_without_effect_are_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listener: dict[str, object] = {"name": "l", "host": "127.0.0.1", "port": 1}
    text = section("listener", **listener, cost=2, healthz="no", metrics="yes")
    text += section("connector", name="c", port=1, cost=2, verifyHostName="yes")
    text += section("sslProfile", name="p", privateKeyFile="/key", password="env:KEY")
    code, _, lines = check(capsys, tmp_path, text)
    assert code == 0
    assert [line.partition(": ")[2].partition(" ")[2] for line in lines] == [
        "sslProfile privateKeyFile: has no effect without a certFile",
        "sslProfile password: has no effect without a certFile",
        "listener cost: has no effect without role: inter-router",
        "listener healthz: has no effect without http: yes",
        "listener metrics: has no effect without http: yes",
        "connector verifyHostName: is deprecated; use verifyHostname",
        "connector cost: has no effect without role: inter-router",
        "connector verifyHostname: has no effect without an sslProfile",
    ]
    text = section("tokenProfile", name="t", audience="a", issuer="i", keysFile="/k", refreshSeconds=60)
    text += section("sslProfile", name="p", passwordFile="/password")
    text += section("listener", **listener, usersFile="/u", saslMechanisms="ANONYMOUS", trustedCertsFile="/c")
    _, _, lines = check(capsys, tmp_path, text)
    assert {line.rpartition(": has no effect without ")[0].partition(": ")[2].partition(" ")[2] for line in lines} > {
        "tokenProfile refreshSeconds", "sslProfile passwordFile", "listener usersFile", "listener trustedCertsFile",
    }  # fmt: skip
    text = section("router", id="A", mode="interior") + section("listener", **listener, role="inter-router", cost=2)
    text += section("listener", name="w", host="127.0.0.1", port=2, http="yes", healthz="no", metrics="no", cost=1)
    assert check(capsys, tmp_path, text)[::2] == (0, [])


def test_check_finds_outputs_of_the_log_that_cannot_be_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And files that several log entities would rename. Nothing is created."""
    file, pipe = tmp_path / "log", tmp_path / "pipe"
    file.write_text("a line\n", encoding="utf-8")
    os.mkfifo(pipe)
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    good = [file, pipe, tmp_path / "dangling", tmp_path / "other", "stdout", "syslog"]
    modules = ["ROUTER", "AGENT", "SERVER", "POLICY", "HTTP", "ERROR"]
    text = "".join(section("log", module=module, outputFile=output) for module, output in zip(modules, good))
    assert check(capsys, tmp_path, text)[::2] == (0, [])
    assert {path.name for path in tmp_path.iterdir()} == {"log", "pipe", "dangling", "t.conf"}
    assert file.read_text(encoding="utf-8") == "a line\n"
    bad = [("ROUTER", "/nowhere/log"), ("AGENT", tmp_path), ("SERVER", file / "log")]
    text = "".join(section("log", module=module, outputFile=output) for module, output in bad)
    text += section("log", module="POLICY", outputFile=file, maxMegabytes=1)
    text += section("log", module="HTTP", outputFile=file)
    code, _, lines = check(capsys, tmp_path, text)
    assert code == 1
    for line, words in zip(
        lines,
        [
            "log outputFile: /nowhere/log cannot be opened: No such file or directory",
            "log outputFile:  cannot be opened: Is a directory",
            "log outputFile: /log/log cannot be opened: Not a directory",
            "all log entities of /log must give it the same name",
        ],
        strict=True,
    ):
        assert words in line


def test_check_finds_vhosts_that_cannot_be_enforced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policies").mkdir()
    vhost = ["vhost", {"hostname": "w", "aliases": "v"}]
    (tmp_path / "policies" / "w.json").write_text(json.dumps([vhost]), encoding="utf-8")
    groups = "groups: {\n  a: {\n   remoteHosts: 10.0.*\n  }\n }\n"
    text = section("policy", policyDir=tmp_path / "policies", enableVhostPolicy="yes")
    text += "vhost {\n hostname: v\n}\nvhost {\n hostname: x\n " + groups + "}\n"
    code, _, lines = check(capsys, tmp_path, text)
    assert code == 1
    assert lines == [
        "waymesh-router: /t.conf:8: vhost x: groups.a: remoteHosts: '10.0.*': * must stand alone, or for the last of "
        "four words of an address (192.168.1.*)",
        "waymesh-router: /policies/w.json:1: vhost w: 'v' is already a name of v",
    ]


def test_check_does_not_look_up_host_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = section("policy", enableVhostPolicy="yes")
    groups = "groups: {\n  a: {\n   remoteHosts: nowhere.invalid\n  }\n }\n"
    assert check(capsys, tmp_path, policy + "vhost {\n hostname: x\n " + groups + "}\n")[::2] == (0, [])


def test_compat_26_a_cyrus_configuration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "qdrouterd.conf").write_text("pwcheck_method: auxprop\n", encoding="utf-8")
    code, _, (line,) = check(capsys, tmp_path, section("router", id="A", saslConfigDir=tmp_path))
    assert code == 0
    assert "/qdrouterd.conf is a configuration of Cyrus SASL" in line
    assert "/qdrouterd.users with a line `NAME:{plain}PASSWORD`" in line
    (tmp_path / "qdrouterd.users").write_text("a:{plain}b\n", encoding="utf-8")
    assert check(capsys, tmp_path, section("router", id="A", saslConfigDir=tmp_path))[::2] == (0, [])


def test_compat_23_profiles_that_cannot_be_used_close_their_listeners(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost",))
    good, bad = free_port(), free_port()
    text = section("listener", name="good", host="127.0.0.1", port=good)
    files = {"certFile": pair.cert, "privateKeyFile": pair.key}
    text += section("sslProfile", name="p0", caCertFile="/nowhere/ca", **files)
    text += section("listener", name="l0", host="127.0.0.1", port=bad, sslProfile="p0")
    text += section("connector", name="c", host="127.0.0.1", port=good, sslProfile="p0")
    router = RouterProcess(tmp_path, "A", text, [good])
    router.start()
    try:
        with Client(router.url) as client:
            client.receiver("q")
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", bad)) != 0
        errors = [line.partition("SERVER (error) ")[2] for line in router.log.splitlines() if "SERVER (error)" in line]
    finally:
        assert router.stop() == 0
    assert errors == [
        "SSL CA configuration failed: sslProfile p0: caCertFile: /nowhere/ca: No such file or directory",
        "listener l0: stays closed, because sslProfile p0 cannot be used",
        "connector c: stays closed, because sslProfile p0 cannot be used",
    ]


def test_check_fails_for_a_listener_that_would_stay_closed_and_calls_it_by_its_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = section("router", id="A") + section("sslProfile", name="p", caCertFile="/nowhere/ca")
    text += section("listener", host="127.0.0.1", port="5671", sslProfile="p")
    code, out, lines = check(capsys, tmp_path, text)
    assert (code, out) == (1, "")
    assert lines[1:] == [
        "waymesh-router: listener listener/127.0.0.1:5671: stays closed, because sslProfile p cannot be used"
    ]


@pytest.mark.parametrize(
    ("policy", "warning"),
    [
        (
            {},
            "vhosts are ignored ($default, *.example): all clients may use all addresses until the section policy has "
            "enableVhostPolicy: yes",
        ),
        (
            {"enableVhostPolicy": "yes"},
            "vhost *.example is only for clients that ask for exactly this name: * and # are wildcards only if the "
            "section policy has enableVhostNamePatterns: yes",
        ),
        ({"enableVhostPolicy": "yes", "enableVhostNamePatterns": "yes"}, ""),
    ],
)
def test_vhosts_that_do_not_act_are_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: dict[str, str], warning: str
) -> None:
    text = section("router", id="A") + section("policy", maxConnections=100, **policy)
    text += section("vhost", hostname="$default") + section("vhost", hostname="*.example")
    code, _, lines = check(capsys, tmp_path, text)
    assert (code, lines) == (0, [f"waymesh-router: {warning}"] if warning else [])


@pytest.mark.parametrize(
    ("attributes", "warnings"),
    [
        ({"saslUsername": "u", "saslPassword": "p"}, []),
        ({"saslUsername": "u", "saslPassword": "p", "saslMechanisms": "PLAIN ANONYMOUS"}, []),
        ({"saslMechanisms": "ANONYMOUS"}, []),
        ({"saslMechanisms": "EXTERNAL", "sslProfile": "t"}, []),
        (
            {"saslUsername": "u", "saslPassword": "p", "saslMechanisms": "EXTERNAL ANONYMOUS"},
            ["not used: saslUsername, saslPassword: saslMechanisms allows only EXTERNAL ANONYMOUS"],
        ),
        (
            {"saslUsername": "u", "saslMechanisms": "ANONYMOUS"},
            ["not used: saslUsername: saslMechanisms allows only ANONYMOUS"],
        ),
        ({"saslUsername": "u"}, ["not used: saslUsername: there is no saslPassword"]),
        ({"saslPassword": "p"}, ["not used: saslPassword: there is no saslUsername"]),
        ({"saslMechanisms": "PLAIN"}, [mechanisms.CANNOT_LOG_IN.format("PLAIN")]),
        ({"saslMechanisms": "EXTERNAL"}, [mechanisms.CANNOT_LOG_IN.format("EXTERNAL")]),
        (
            {"saslUsername": "u", "saslMechanisms": "PLAIN", "sslProfile": "t"},
            ["not used: saslUsername: there is no saslPassword", mechanisms.CANNOT_LOG_IN.format("PLAIN")],
        ),
    ],
)
def test_credentials_that_a_connector_does_not_use_are_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], attributes: dict[str, str], warnings: list[str]
) -> None:
    """As at a start: Qpid Dispatch starts with such files."""
    text = section("router", id="A") + section("sslProfile", name="t")
    text += section("connector", name="c", host="127.0.0.1", port=1, **attributes)
    code, _, lines = check(capsys, tmp_path, text)
    assert (code, lines) == (0, [f"waymesh-router: connector c: {text}" for text in warnings])


def given(entries: list[ConfigEntry]) -> list[tuple[str, dict[str, Any]]]:
    return [(entry.type.name, {**entry.attributes, "name": None}) for entry in entries]


def test_the_dump_of_a_router_is_its_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    rows = [
        ["log", {"module": "DEFAULT", "enable": "debug+", "includeSource": True}],
        ["router", {"id": "A", "defaultDistribution": "closest"}],
        ["policy", {"maxConnections": 50}],
        ["address", {"pattern": "a/#", "distribution": "multicast", "name": "a"}],
        ["linkRoute", {"prefix": "b", "direction": "in", "connection": "c"}],
        ["autoLink", {"address": "q", "direction": "out", "connection": "c", "phase": 0}],
        ["vhost", {"hostname": "v", "groups": {"g": {"users": ["u", "w"], "sourcePattern": "a.#", "maxSenders": 2}}}],
        ["listener", {"name": "l", "host": "127.0.0.1", "port": port, "openProperties": {"x": [1, {"y": "#"}]}}],
        ["connector", {"name": "c", "role": "route-container", "port": 1, "saslUsername": "u"}],
    ]
    text = json.dumps(rows)
    router = RouterProcess(tmp_path, "A", "", [port])
    (tmp_path / "A.json").write_text(text, encoding="utf-8")
    router.arguments = ["-c", str(tmp_path / "A.json")]
    router.start()
    try:
        code, out, errors = run(capsys, "--dump", "--url", router.url)
    finally:
        router.stop()
    assert (code, errors) == (0, [])
    assert "# connector c: saslPassword is not reported; add it if set" in out
    assert given(parse_json(out, "dump.json")) == given(parse_json(text, "t.json"))


def test_dump_without_a_router(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, (line,) = run(capsys, "--dump", "--url", f"amqp://127.0.0.1:{free_port()}")
    assert (code, out) == (1, "")
    assert line.startswith("waymesh-router: dump: ")
