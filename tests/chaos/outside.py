"""Clients on libraries of other languages, in processes of their own (`programs/`), with the same plans and schedules.

A program gets its plan as JSON in its only argument: `name`; `port` of 127.0.0.1; `ca`, a PEM file to read for each TLS
connection, or "" without TLS; `idle_s`; `answers` ({"accepted": 90, …}, weights); `links`, [{`sends`, `address`,
`settled`, `rate`, `window`}]. It connects again whenever a connection ends, and sends and receives as `client.py` does,
in messages of the same form. It writes lines of JSON: events as rows, as in `events.to_row`, each before what it tells
of is done, and

- `["Through", producer, address, sent_at]`: a message came that this producer sent then,
- `["Problem", text]`: good to know,
- `["Reached", n]`: the answer to the line `n`, after all that happened before it.

It reads lines: `finish` (send nothing new), and numbers. It ends at the end of its input.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos.events import Answered, Attached, Event, Gone, Outcome, Received, Sent, from_row
from tests.chaos.workload import ANSWERS, Plan, Sends
from tests.interop.programs import rhea_folder
from tests.kit.bound import bound
from tests.kit.built import cached, call, need
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from tests.chaos.client import Group

SOURCES = Path(__file__).with_name("programs")
REACH_S = 120.0
END_S = 60.0


def _rhea() -> list[str]:
    """The libraries are those of the tests between clients (`tests/interop/rhea`)."""
    return ["env", f"NODE_PATH={rhea_folder() / 'node_modules'}", "node", str(SOURCES / "rhea" / "client.js")]


def _go_amqp() -> list[str]:
    need("go", "golang-go")
    sources = SOURCES / "go_amqp"
    folder = cached(sources, lambda folder: call(["go", "build", "-o", str(folder / "client"), "."], sources))
    return [str(folder / "client")]


COMMANDS: dict[str, Callable[[], list[str]]] = {"rhea": _rhea, "go-amqp": _go_amqp}
"""How the program of a plan is started; built the first time."""


class Outside:
    """A client in a process of its own."""

    def __init__(self, group: Group, name: str, plan: Plan, words: dict[str, Any], log: Path) -> None:
        """`words`: what the program is told beside its name and links; `log`: what it says beside events."""
        self._group = group
        self._name = name
        self._expected = len(plan.links)
        self._open: dict[str, set[str]] = defaultdict(set)
        """By link, the messages whose outcome is not known or not given."""
        self._asked = self._reached = 0
        links = [
            {"sends": True, "address": link.address, "settled": link.settled, "rate": link.rate, "window": link.window}
            if isinstance(link, Sends)
            else {"sends": False, "address": link.address}
            for link in plan.links
        ]
        words = {"name": name, "answers": ANSWERS, "links": links} | words
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                bound([*COMMANDS[plan.program](), json.dumps(words)]),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1,
            )  # fmt: skip
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Send nothing new."""
        self._say("finish")

    def is_attached(self) -> bool:
        """Whether all its links are there. AssertionError if the program has ended."""
        assert self._process.poll() is None, f"client {self._name} ended with {self._process.returncode}"
        return len(self._open) == self._expected

    def is_done(self) -> bool:
        """Whether all outcomes are known and given, as far as what it wrote was read."""
        return not any(self._open.copy().values())

    def collect(self) -> None:
        """Wait until all that it has written so far is read."""
        self._asked += 1
        self._say(str(self._asked))
        wait_until(lambda: self._reached >= self._asked, REACH_S, f"an answer of client {self._name}")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(END_S)
        self._thread.join(END_S)
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # the last one of a program that was killed may not
                    self._note(json.loads(line))

    def _note(self, row: list[Any]) -> None:
        match row:
            case ["Through", producer, address, at]:
                self._group.through.note(producer, address, self._name, at)
            case ["Problem", text]:
                self._group.problems.append(text)
            case ["Reached", number]:
                self._reached = number
            case _:
                event = from_row(row)
                self._keep(event)
                self._group.events.append(event)

    def _keep(self, event: Event) -> None:
        match event:
            case Attached():
                self._open[event.link] = set()
            case Gone():
                self._open.pop(event.link, None)
            case Sent(settled=False) | Received(settled=False):
                self._open[event.link].add(event.message)
            case Outcome() | Answered():
                self._open[event.link].discard(event.message)
