"""Processes of killed tests end: `kit/bound.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.bound import bound, bound_with_children
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.engine_independent

PARENT = """
import json, subprocess, sys
child = subprocess.Popen(json.loads(sys.argv[1]), start_new_session=True, stdout=subprocess.PIPE)
print(child.pid, child.stdout.readline().decode(), flush=True)
sys.stdin.read()
"""
SLEEP = ["sh", "-c", "echo $$; exec sleep 60"]
SCRIPT = ["sh", "-c", "sleep 60 & echo $!; wait"]


@pytest.mark.parametrize("command", [bound(SLEEP), bound_with_children(SCRIPT)], ids=["program", "script"])
def test_a_child_ends_with_its_parent(command: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, json.dumps(command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child, inner = (int(word) for word in parent.stdout.readline().split())
        assert runs(child)
        assert runs(inner)
        parent.kill()
    wait_until(lambda: not runs(child) and not runs(inner), what="the end of the child")


def test_the_process_id_is_that_of_the_program() -> None:
    with subprocess.Popen(bound(SLEEP), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.kill()


def runs(pid: int) -> bool:
    """Whether the process is there and not only its exit status."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
