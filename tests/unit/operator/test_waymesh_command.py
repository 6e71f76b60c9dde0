"""The command line: output on stdout and stderr, and exit codes."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from waymesh_analytics.cli import main as analyze_job
from waymesh_operator.cli.main import run_command
from waymesh_operator.cli.terminal import make_console

pytestmark = pytest.mark.engine_independent

ROOT = Path(__file__).parents[3]
EXAMPLE = str(ROOT / "examples" / "mesh.yaml")


def waymesh(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from waymesh_operator.cli.main import main; sys.argv[0] = 'waymesh'; main()"
    path = os.pathsep.join([str(ROOT / "router_image"), str(ROOT / "operator")])
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "120", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_plan_for_nothing_yet(tmp_path: Path) -> None:
    done = waymesh("plan", "-f", EXAMPLE, "--state-dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "create router mesh-2" in done.stdout
    assert "connects to mesh-0, mesh-1" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_plan_without_a_router_says_so(tmp_path: Path) -> None:
    (file := tmp_path / "login.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: login}\n")
    done = waymesh("plan", "-f", str(file), "--state-dir", str(tmp_path / "state"))
    assert (done.returncode, done.stdout) == (0, "no Router in the manifests: nothing to do\n")


def test_a_plan_as_json_and_with_a_telling_exit_code(tmp_path: Path) -> None:
    done = waymesh("plan", "-f", EXAMPLE, "--state-dir", str(tmp_path), "-o", "json", "--detailed-exitcode")
    assert done.returncode == 2
    rows = json.loads(done.stdout)
    assert [(row["mesh"], row["action"], row["router"]) for row in rows] == [
        ("mesh", "CreateRouter", f"mesh-{k}") for k in range(3)
    ]


def test_a_plan_names_entities_and_what_is_missing(tmp_path: Path) -> None:
    broker = "---\napiVersion: waymesh.io/v1alpha1\nkind: Broker\nmetadata: {name: store}\nspec:\n"
    broker += "  routerRef: {name: mesh}\n  endpoints: [{host: b}]\n"
    broker += "  auth: {mechanism: SCRAM-SHA-256, secretRef: {name: login}}\n"
    file = tmp_path / "mesh.yaml"
    file.write_text(Path(EXAMPLE).read_text() + broker)
    table = waymesh("plan", "-f", str(file), "--state-dir", str(tmp_path / "state"))
    assert table.returncode == 0
    assert "address orders (prefix orders, balanced)" in table.stdout
    assert "Broker/store will not work: SecretMissing: " in table.stdout
    listed = waymesh("plan", "-f", str(file), "--state-dir", str(tmp_path / "state"), "-o", "json")
    missing, *created = json.loads(listed.stdout)
    assert (missing["action"], missing["reason"]) == ("Unresolved", "SecretMissing")
    for row in created:
        assert "k8s/default/Address/orders" in [entity["name"] for entity in row["entities"]]


def test_errors_in_manifests_stand_on_stderr_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "apiVersion: waymesh.io/v1alpha1\nkind: Router\nmetadata: {name: mesh}\nspec:\n  size: 99\n  tpology: Full\n"
    )
    for command in ("plan", "up"):
        done = waymesh(command, "-f", str(file), "--state-dir", str(tmp_path / "state"))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines() == [
            f"{file}:5: Router/mesh spec.size: must be between 0 and 64 (got 99)",
            f"{file}:6: Router/mesh spec.tpology: unknown field; did you mean topology?",
        ]


def test_help_and_wrong_use() -> None:
    done = waymesh("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("up", "plan", "stat", "manage", "demo"))
    assert waymesh("nonsense").returncode == 2
    assert waymesh("plan").returncode == 2
    assert waymesh("plan", "-f", EXAMPLE, "-o", "xml").returncode == 2


@pytest.mark.parametrize("command", ["stat", "manage", "analyze"])
def test_all_commands_have_the_same_help(command: str) -> None:
    done = waymesh(command, "--help")
    assert done.returncode == 0
    assert f"Usage: waymesh {command}" in done.stdout
    assert "Show this message and exit." in done.stdout


def test_wrong_use_is_explained_by_the_usage_and_one_line() -> None:
    done = waymesh("status", "--nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == "Usage: waymesh status [OPTIONS] [router]"
    assert done.stderr.splitlines()[1].startswith("waymesh status: No such option: --nonsense")


@pytest.mark.parametrize(
    ("typed", "word"),
    [("waymesh st", "stat"), ("waymesh stat --auto", "--autolinks"), ("waymesh manage que", "query"),
     ("waymesh manage query --type lis", "listener"), ("waymesh analyze --keep-r", "--keep-raw")],
)  # fmt: skip
def test_shell_completion(typed: str, word: str) -> None:
    position = str(len(typed.split()) - 1)
    done = waymesh(_WAYMESH_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=position)
    assert word in done.stdout.split(), done.stderr


def test_analyze_has_the_options_of_the_job() -> None:
    made = analyze_job.parser()
    names = {option for action in made._actions for option in action.option_strings}
    assert set(re.findall(r"--[a-z][a-z-]+", waymesh("analyze", "--help").stdout)) == {n for n in names if n[1] == "-"}


def test_the_commands_start_without_what_they_do_not_need() -> None:
    code = (
        "import sys; from waymesh_operator.cli.main import app;"
        "print([m for m in ('proton', 'cel', 'yaml', 'waymesh_operator.planning.plan') if m in sys.modules])"
    )
    path = os.pathsep.join([str(ROOT / "router_image"), str(ROOT / "operator")])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", [["status"], ["stat", "--pod", "mesh-0"], ["report"]])
def test_a_kubeconfig_that_is_not_yaml_is_told_in_one_line(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "config"
    path.write_text("contexts: [\n", encoding="utf-8")
    done = waymesh(*command, KUBECONFIG=str(path), KUBERNETES_SERVICE_HOST="")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("waymesh: cannot find a cluster: while parsing")
    assert line.endswith("; for routers on this machine: waymesh up")


def test_a_missing_kubeconfig_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "missing"
    done = waymesh("status", KUBECONFIG=str(path), KUBERNETES_SERVICE_HOST="", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 1
    reason = f"there is no kubeconfig {path}; for routers on this machine: waymesh up"
    assert done.stderr == f"waymesh: cannot find a cluster: {reason}\n"


class NothingThere(BaseHTTPRequestHandler):
    """An API server without any object. A list in a namespace that does not exist is answered in the same way."""

    def do_GET(self) -> None:
        body = json.dumps({"metadata": {}, "items": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(("output", "told"), [("table", "no Router in namespace nowhere\n"), ("json", "[]\n")])
def test_the_status_of_a_namespace_without_anything_is_no_success(tmp_path: Path, output: str, told: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), NothingThere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there = {"server": f"http://127.0.0.1:{server.server_port}"}
        config = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": there}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        }
        (path := tmp_path / "config").write_text(json.dumps(config), encoding="utf-8")
        done = waymesh("status", "-n", "nowhere", "-o", output, KUBECONFIG=str(path), KUBERNETES_SERVICE_HOST="")
        server.shutdown()
    assert (done.returncode, done.stdout, done.stderr) == (1, told, "")


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("arguments", [("plan", "-f", EXAMPLE), ("explain", "router.spec")])
def test_output_to_a_full_disk_is_an_error_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "stdout", Full())
    assert run_command(arguments) == 1
    assert capsys.readouterr().err == "waymesh: No space left on device\n"


@pytest.mark.parametrize("no_color", [False, True])
def test_without_colours_a_terminal_gets_plain_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_color: bool
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    console = make_console(no_color)
    assert console.is_terminal
    console.print("heading", style="bold red")
    assert ("\x1b[" in capsys.readouterr().out) is not no_color
