"""Runs the commands and examples of the README and of the pages by task, and the manifests under examples/."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from proton.utils import BlockingConnection

from tests.kit.ports import free_port
from tests.kit.process import RouterProcess
from tests.kit.waiting import DEADLINE_S, wait_until

REPO = Path(__file__).resolve().parents[2]
README = (REPO / "README.md").read_text(encoding="utf-8")
PAGES = ("first-mesh", "two-tenants", "broker", "sizing", "links", "upgrade", "troubleshooting")
"""The pages by task, of docs/."""
START_S = 60.0


def text_of(name: str) -> str:
    """A page of docs/."""
    return (REPO / "docs" / name).read_text(encoding="utf-8")


def blocks(language: str = "", page: str = README) -> list[str]:
    """The fenced blocks of a page in one language."""
    fenced = page.split("```")[1::2]
    return [text.partition("\n")[2] for text in fenced if text.partition("\n")[0] == language]


def commands(word: str, page: str = README) -> list[list[str]]:
    """The commands of a page that begin with `.venv/bin/waymesh <word>`, without their comments."""
    lines = [shlex.split(line.partition(" #")[0]) for block in blocks(page=page) for line in block.splitlines()]
    return [line[1:] for line in lines if line[:2] == [".venv/bin/waymesh", word]]


def waymesh(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "waymesh_operator.cli.main", *arguments]


@pytest.fixture(scope="module", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Local meshes keep their state in a folder of ours, where the other commands look for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """`waymesh up` of the README's example on free ports; the client ports of its routers."""
    folder = tmp_path_factory.mktemp("readme")
    arguments = commands("up")[0]
    log = folder / "up.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            waymesh(*arguments, "--free-ports"),
            cwd=REPO, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def ports() -> list[int]:
        text = log.read_text(encoding="utf-8", errors="replace")
        assert process.poll() is None, text
        return [int(p) for p in re.findall(r"amqp://127\.0\.0\.1:(\d+)", text)] if "is ready" in text else []

    try:
        wait_until(lambda: bool(ports()), START_S)
        yield ports()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(START_S) == 0


def run(arguments: list[str]) -> str:
    done = subprocess.run(arguments, check=False, cwd=REPO, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.engine_independent
def test_the_two_commands_are_make_targets() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)$", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.engine_independent
@pytest.mark.parametrize("example", sorted(p.name for p in (REPO / "examples").glob("*.yaml")))
def test_examples_can_be_planned(example: str, tmp_path: Path) -> None:
    out = run(waymesh("plan", "-f", f"examples/{example}", "--state-dir", str(tmp_path)))
    assert "create router" in out.lower()


def test_plan_command(tmp_path: Path) -> None:
    for arguments in commands("plan"):
        assert "mesh-2" in run(waymesh(*arguments, "--state-dir", str(tmp_path)))


def test_stat_and_manage_commands_reach_the_local_mesh(mesh: list[int]) -> None:
    for page in (README, text_of("troubleshooting.md"), text_of("first-mesh.md")):
        for word in ("stat", "manage", "topology", "status"):
            for arguments in commands(word, page):
                assert run(waymesh(*arguments)).strip()


@pytest.mark.engine_independent
@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_of_the_pages_exist(page: str) -> None:
    text = text_of(f"{page}.md")
    lines = "\n".join([*blocks("", text), *blocks("sh", text)]).splitlines()
    told: dict[str, str] = {}
    for line in lines:
        command = re.match(r"(?:kubectl |\.venv/bin/)waymesh ((?:link |policy )?[a-z-]+)(.*)", line)
        if command is None:
            continue
        if command[1] not in told:
            told[command[1]] = run(waymesh(*command[1].split(), "--help"))
        for option in re.findall(r" (--?[a-z][a-z-]*)", command[2].partition(" #")[0]):
            assert re.search(rf"[ ,]{option}\b", told[command[1]]), line
    assert told or page == "upgrade"


def test_programs_of_the_first_mesh(mesh: list[int], tmp_path: Path) -> None:
    worker, shop = blocks("python", text_of("first-mesh.md"))
    for name, text in (("worker.py", worker), ("shop.py", shop)):
        (tmp_path / name).write_text(text.replace("5672", str(mesh[0])).replace("5674", str(mesh[2])), encoding="utf-8")
    with ThreadPoolExecutor() as pool:
        working = pool.submit(run, [sys.executable, str(tmp_path / "worker.py")])
        run([sys.executable, str(tmp_path / "shop.py")])
        assert working.result(DEADLINE_S).splitlines() == [f"got order {number}" for number in range(10)]


@pytest.mark.engine_independent
def test_conditions_and_events_of_the_help_page_exist() -> None:
    page = text_of("troubleshooting.md")
    folders = [REPO / "router_image", REPO / "operator"]
    sources = "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py"))
    names = re.findall(r"`((?:amqp|qd):[a-z:-]+|(?:link|delivery|connection)\.[a-z]+)`", page)
    assert len(names) > 8
    assert [name for name in names if name not in sources] == []


def test_python_example_sends_to_a_consumer_on_another_router(mesh: list[int]) -> None:
    example = blocks("python")[0].replace("127.0.0.1:5672", f"127.0.0.1:{mesh[0]}")
    with ThreadPoolExecutor() as pool:
        consumer = BlockingConnection(f"127.0.0.1:{mesh[-1]}", timeout=DEADLINE_S)
        try:
            receiver = consumer.create_receiver("orders/eu", credit=1)
            sending = pool.submit(run, [sys.executable, "-c", example])
            assert receiver.receive(DEADLINE_S).body == "an order"
            receiver.accept()
        finally:
            consumer.close()  # which also writes the outcome that the sender waits for
        sending.result(DEADLINE_S)


def test_router_configuration_example(tmp_path: Path) -> None:
    port = free_port()
    config = next(block for block in blocks() if block.startswith("router {")).replace("5672", str(port))
    router = RouterProcess(tmp_path, "readme", config, [port])
    router.start()
    try:
        BlockingConnection(router.url, timeout=DEADLINE_S).close()
    finally:
        router.stop()
