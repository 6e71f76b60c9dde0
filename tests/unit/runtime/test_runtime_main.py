"""`waymesh-router` as a process: command line, start errors, signals, daemon."""

from __future__ import annotations

import os
import pwd
import resource
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.raw_client import RawClient
from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import START_S, RouterProcess, command, section, standalone
from tests.kit.waiting import DEADLINE_S, wait_until
from waymesh_router.runtime.daemon import DESCRIPTORS

StartRouter = Callable[..., RouterProcess]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command(), *arguments], capture_output=True, text=True, timeout=START_S, check=False)


def run_config(folder: Path, text: str, name: str = "bad.conf") -> subprocess.CompletedProcess[str]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return run("-c", str(path))


def test_version() -> None:
    pyproject = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, pyproject["project"]["version"] + "\n", "")


def test_help() -> None:
    done = run("-h")
    assert done.returncode == 0
    assert "--config" in done.stdout


def test_unknown_option() -> None:
    done = run("--nonsense")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nonsense" in done.stderr


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("router {\n    mode: sideways\n}\n", ["bad.conf:2", "mode", "sideways"]),
        ("router {\n    id: A\n}\nlistner {\n}\n", ["bad.conf:4", "listner"]),
        ("listener {\n    port: no-such-service\n    host: 127.0.0.1\n}\n", ["port", "no-such-service"]),
        (
            "sslProfile {\n    name: p\n    certFile: /nowhere/cert\n}\n",
            ["sslProfile p", "certFile", "/nowhere/cert", "No such file"],
        ),
        ("log {\n    module: ROUTER\n    outputFile: /nowhere/log\n}\n", ["log", "outputFile", "/nowhere/log"]),
    ],
)
def test_bad_configuration(tmp_path: Path, text: str, reasons: list[str]) -> None:
    done = run_config(tmp_path, text)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    for reason in reasons:
        assert reason in done.stderr


def test_missing_configuration_file() -> None:
    done = run("-c", "/nowhere/router.conf")
    assert done.returncode == 1
    assert "/nowhere/router.conf" in done.stderr


def test_port_taken(tmp_path: Path) -> None:
    """No listener stays open if one cannot listen."""
    first = free_port()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = section("listener", host="127.0.0.1", port=first) + section("listener", host="127.0.0.1", port=port)
        done = run_config(tmp_path, text)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", first)) != 0


@pytest.mark.by_exec
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_orderly_stop(router: RouterProcess, number: signal.Signals) -> None:
    with Client(router.url) as client:
        os.kill(router.pid, number)
        client.wait_ended()
    assert not client.closed_by_peer, "the transport ends without a close frame, so that clients connect anew"
    wait_until(lambda: not router.alive())
    assert router.stop() == 0


@pytest.mark.by_exec
def test_descriptors_for_thousands_of_connections_are_prepared(router: RouterProcess) -> None:
    """With threads, enlarging the table later would block the loop: the kernel waits until no core uses the old one."""
    state = Path(f"/proc/{router.pid}/status").read_text(encoding="utf-8")
    size = next(int(line.split()[1]) for line in state.splitlines() if line.startswith("FDSize:"))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert size >= min(hard, DESCRIPTORS)


@pytest.mark.by_exec
def test_second_signal_stops_at_once(router: RouterProcess) -> None:
    """A peer that never answers delays an orderly stop, but not a second signal."""
    with RawClient(router.port) as silent:
        silent.open()
        router.pause()  # it finds both when it goes on: the stop itself may be over before a slow test sends the second
        os.kill(router.pid, signal.SIGINT)
        os.kill(router.pid, signal.SIGTERM)
        router.resume()
        assert router.stop() in (128 + signal.SIGTERM, 128 + signal.SIGINT), "whichever is the second"


def test_nothing_on_stdout(tmp_path: Path) -> None:
    router = standalone(tmp_path)
    with subprocess.Popen(
        [*command(), "-c", str(router.config_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "started" in line:
                break
        with Client(router.url) as client:
            client.receiver("q")
        process.terminate()
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert (out, process.returncode) == ("", 0)


def test_users_are_read_again_on_sighup(start_router: StartRouter, tmp_path: Path) -> None:
    users = tmp_path / "test.users"
    users.write_text("alice:{plain}old\n", encoding="utf-8")
    port = free_port()
    text = section("router", id="A", saslConfigDir=tmp_path, saslConfigName="test")
    text += section("listener", host="127.0.0.1", port=port, saslMechanisms="PLAIN", allowInsecurePlain=True,
                    authenticatePeer=True)  # fmt: skip
    router = RouterProcess(tmp_path, "A", text, [port], within=())
    router.start()
    try:
        assert login(router, "old")
        assert not login(router, "new")
        users.write_text("alice:{plain}new\n", encoding="utf-8")
        os.kill(router.pid, signal.SIGHUP)
        wait_until(lambda: "SIGHUP" in router.log)
        wait_until(lambda: login(router, "new"))
        assert not login(router, "old")
    finally:
        router.stop()


def login(router: RouterProcess, password: str) -> bool:
    client = Client(
        router.url, wait=False, user="alice", password=password, allowed_mechs="PLAIN", allow_insecure_mechs=True
    )
    wait_until(lambda: client.opened.is_set() or client.ended.is_set())
    opened = client.opened.is_set()
    client.close()
    return opened


def test_amqps_with_proton(tmp_path: Path) -> None:
    from proton import SSLDomain

    authority = Authority(tmp_path)
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
    port = free_port()
    text = section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key)
    text += section("listener", host="127.0.0.1", port=port, sslProfile="p", requireSsl=True)
    router = RouterProcess(tmp_path, "A", section("router", id="A") + text, [port], within=())
    router.start()
    try:
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(str(authority.cert))
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
        with Client(f"amqps://127.0.0.1:{port}", ssl_domain=domain, allowed_mechs="ANONYMOUS") as client:
            receiver = client.receiver("q", credit=1)
            sent = client.sender("q").send("x" * 300_000)
            body = receiver.take(1)[0].body
            assert isinstance(body, str)
            assert len(body) == 300_000
            assert sent.outcome() == "accepted"
    finally:
        router.stop()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[tuple[RouterProcess, Path]]:
    """A router to start with -d, and its pidfile; stopped with the id in it."""
    router, pidfile = standalone(tmp_path), tmp_path / "router.pid"
    yield router, pidfile
    if pidfile.exists():
        os.kill(int(pidfile.read_text(encoding="ascii")), signal.SIGKILL)


def test_daemon(daemon: tuple[RouterProcess, Path]) -> None:
    """The command exits when the router listens."""
    router, pidfile = daemon
    done = run("-c", str(router.config_path), "-d", "-P", str(pidfile), "-U", pwd.getpwuid(os.geteuid()).pw_name)
    assert (done.returncode, done.stdout) == (0, "")
    pid = int(pidfile.read_text(encoding="ascii"))
    with Client(router.url):
        assert os.getsid(pid) != os.getsid(0)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not pidfile.exists())


def test_daemon_that_cannot_start(daemon: tuple[RouterProcess, Path]) -> None:
    router, pidfile = daemon
    with socket.create_server(("127.0.0.1", router.port)):
        done = run("-c", str(router.config_path), "-d", "-P", str(pidfile))
    assert done.returncode == 1
    assert "Address already in use" in done.stderr
    assert not pidfile.exists()
    done = run("-c", str(router.config_path), "-d", "-P", str(pidfile), "-U", "no-such-user-here")
    assert done.returncode == 1
    assert "no-such-user-here" in done.stderr
    assert not pidfile.exists()


def test_a_pidfile_in_the_foreground(tmp_path: Path) -> None:
    """-P also works without -d; the file is removed after an orderly stop."""
    router, pidfile = standalone(tmp_path), tmp_path / "router.pid"
    with subprocess.Popen([*command(), "-c", str(router.config_path), "-P", str(pidfile)]) as process:
        try:
            wait_until(lambda: pidfile.exists() and pidfile.read_text(encoding="ascii") == f"{process.pid}\n")
            with Client(router.url):
                process.terminate()
            assert process.wait(timeout=DEADLINE_S) == 0
        finally:
            process.kill()
    assert not pidfile.exists()
    done = run("-c", str(router.config_path), "-P", "/nowhere/router.pid")
    assert done.returncode == 1
    assert "waymesh-router: pidfile /nowhere/router.pid: No such file or directory" in done.stderr


def test_a_user_in_the_foreground(tmp_path: Path) -> None:
    """-U also works without -d, so that a router does not keep the rights of its caller."""
    router = standalone(tmp_path)
    done = run("-c", str(router.config_path), "-U", "no-such-user-here")
    assert done.returncode == 1
    assert "waymesh-router: user no-such-user-here: no such user" in done.stderr
    nobody = pwd.getpwnam("nobody")
    script = f"""
import os
from waymesh_router.runtime.daemon import switch_user
switch_user({pwd.getpwuid(os.geteuid()).pw_name!r})
if os.geteuid() == 0:
    switch_user("nobody")
    assert os.getuid() == {nobody.pw_uid}, os.getuid()
    assert os.getgid() == {nobody.pw_gid}, os.getgid()
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_runs_from_any_folder(tmp_path: Path) -> None:
    """No module of the router depends on the working directory."""
    done = subprocess.run([sys.executable, "-c", "import waymesh_router.runtime.running"], cwd=tmp_path, check=False)
    assert done.returncode == 0
