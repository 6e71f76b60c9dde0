"""State folders and router processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.waiting import DEADLINE_S, wait_until
from waymesh_operator.errors import LocalError
from waymesh_operator.places.local.processes import ChildProcess, FoundProcess, SystemLauncher, router_command, usage
from waymesh_operator.places.local.state import StateFolder, default_root
from waymesh_operator.resources.router import Ref

pytestmark = pytest.mark.engine_independent

SLEEPER = "import sys, time; print('up', flush=True); time.sleep(60)"


def test_ports_and_pids_are_remembered(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, Ref("default", "mesh"))
    folder.lock()
    folder.ports["mesh-0"] = {"mesh": [0, 20001]}
    folder.pids["mesh-0"] = 77
    folder.save()
    folder.unlock()
    again = StateFolder(tmp_path, Ref("default", "mesh"))
    again.lock()
    assert (again.ports, again.pids) == (folder.ports, folder.pids)
    again.unlock()


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", '{"ports": 5, "pids": {}}', '{"pids": {}}', '{"ports":{},"pids":{"a":"x"}}',
        '{"ports":{"m-0":5},"pids":{}}', '{"ports":{"m-0":{"mesh":[0]}},"pids":{}}',
        '{"ports":{"m-0":{"mesh":[0,"x"]}},"pids":{}}',
    ],
)  # fmt: skip
def test_a_damaged_state_file_counts_as_none(tmp_path: Path, text: str) -> None:
    folder = StateFolder(tmp_path, Ref("default", "mesh"))
    folder.path.mkdir()
    (folder.path / "state.json").write_text(text)
    folder.lock()
    assert (folder.ports, folder.pids) == ({}, {})
    folder.unlock()


def test_one_process_at_a_time_has_the_folder(tmp_path: Path) -> None:
    first, second = (StateFolder(tmp_path, Ref("default", "mesh")) for _ in range(2))
    first.lock()
    with pytest.raises(LocalError, match="another `waymesh up`"):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()


def test_meshes_of_other_namespaces_have_folders_of_their_own(tmp_path: Path) -> None:
    assert StateFolder(tmp_path, Ref("default", "mesh")).path != StateFolder(tmp_path, Ref("team", "mesh")).path


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError, match="cannot use the state folder"):
        StateFolder(tmp_path / "file", Ref("default", "mesh")).lock()


def test_the_default_root_follows_the_xdg_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "waymesh"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_root() == Path.home() / ".local" / "state" / "waymesh"


def test_last_log_line_of_a_log(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, Ref("default", "mesh"))
    assert folder.last_log_line("mesh-0") == ""
    folder.path.mkdir()
    folder.log("mesh-0").write_text("first\nport is in use\n\n")
    assert folder.last_log_line("mesh-0") == "port is in use"


def test_a_child_process_tells_how_it_ended() -> None:
    for code, expected in (("pass", "exit code 0"), ("raise SystemExit(3)", "exit code 3")):
        process = ChildProcess(subprocess.Popen([sys.executable, "-c", code]))
        wait_until(lambda process=process: process.ended() is not None)  # type: ignore[misc]
        assert process.ended() == expected
    process = ChildProcess(subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.DEVNULL))
    assert process.ended() is None
    assert usage(process.pid) is not None
    process.send(signal.SIGKILL)
    wait_until(lambda: process.ended() is not None)
    assert process.ended() == "signal 9 SIGKILL"
    process.send(signal.SIGTERM)  # gone already: nothing happens


def test_a_process_of_an_earlier_run_is_found_by_pid_and_configuration(tmp_path: Path) -> None:
    config = tmp_path / "mesh-0.json"
    command = [sys.executable, "-c", SLEEPER, "-c", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as popen:
        assert popen.stdout is not None
        assert popen.stdout.readline() == b"up\n"
        launcher = SystemLauncher()
        assert launcher.find(popen.pid, tmp_path / "other.json") is None
        found = launcher.find(popen.pid, config)
        assert isinstance(found, FoundProcess)
        assert found.ended() is None
        found.send(signal.SIGTERM)
        popen.wait(DEADLINE_S)
        assert found.ended() == "ended"
        found.send(signal.SIGTERM)
    assert launcher.find(os.getpid(), config) is None


def test_the_router_program_beside_this_python_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "waymesh-router"
    program.write_text("")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert router_command() == [str(program)]
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert router_command()[1:] == ["-m", "waymesh_router.runtime.main"]
