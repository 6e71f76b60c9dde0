"""One router for the rows of the policy matrix, and raw clients that each use one thing more.

What a client tries comes out as OK or as the condition of the refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.interop.guarded import EVERYTHING, Guarded
from tests.interop.raw_client import WINDOW, RawClient
from tests.kit.ports import free_port
from tests.kit.process import section
from waymesh_amqp.performatives import Attach, Begin, Close, Detach, Flow, Terminus
from waymesh_amqp.types import Symbol

OK = ""
VHOST = "v"
EXTRA = section("address", prefix="w", waypoint=True) + section("address", prefix="f", enableFallback=True)


@dataclass(frozen=True)
class Link:
    """A link that was allowed."""

    client: Member
    handle: int
    attach: Attach
    """What the router answered."""

    def lives(self) -> bool:
        """Whether the router still answers on the link; AssertionError if not."""
        return self.client.answers(self)

    def close(self) -> None:
        self.client.raw.put(Detach(handle=self.handle, closed=True))
        self.client.raw.expect(Detach)


class Member:
    """A client connection, allowed or refused: `verdict`."""

    def __init__(self, raw: RawClient, user: str | None, hostname: str) -> None:
        self.raw = raw
        self._handles = 0
        if user is not None:
            assert raw.login("PLAIN", user, "secret").code == 0
        self.opened = raw.open(sasl=user is None, hostname=hostname)
        self.begun: Begin | None = None
        self.verdict = self._begin()

    def _begin(self) -> str:
        self.raw.put(Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW))
        answer, _ = self.raw.frame()
        if isinstance(answer, Close):
            assert answer.error is not None
            return str(answer.error.condition)
        assert isinstance(answer, Begin), answer
        self.begun = answer
        return OK

    def answers(self, link: Link | None = None) -> bool:
        """Whether the router answers, on the session or on the link."""
        windows = {"next_incoming_id": 0, "incoming_window": WINDOW, "next_outgoing_id": 0, "outgoing_window": WINDOW}
        of_link = {} if link is None else {"handle": link.handle, "delivery_count": 0, "link_credit": 0}
        fields: dict[str, Any] = {**windows, **of_link, "echo": True}
        self.raw.put(Flow(**fields))
        while self.raw.expect(Flow).handle != (None if link is None else link.attach.handle):
            pass
        return True

    def attach(self, receiver: bool, address: str | None, dynamic: bool = False, *capabilities: str) -> Link | str:
        """A link, or the condition of its refusal."""
        handle, self._handles = self._handles, self._handles + 1
        terminus = Terminus(
            kind="source" if receiver else "target",
            address=address,
            dynamic=dynamic,
            capabilities=[Symbol(name) for name in capabilities],
        )
        source, target = Terminus(kind="source"), Terminus(kind="target")
        attach = Attach(
            name=f"link {handle}",
            handle=handle,
            role=receiver,
            source=terminus if receiver else source,
            target=target if receiver else terminus,
            initial_delivery_count=None if receiver else 0,
        )
        self.raw.put(attach)
        answer = self.raw.expect(Attach)
        if (answer.source if receiver else answer.target) is not None:
            return Link(self, handle, answer)
        error = self.raw.expect(Detach).error
        assert error is not None
        self.raw.put(Detach(handle=handle, closed=True))
        return str(error.condition)

    def tries(self, receiver: bool, address: str | None, dynamic: bool = False, *capabilities: str) -> str:
        """OK, or the condition of the refusal."""
        verdict = self.attach(receiver, address, dynamic, *capabilities)
        return OK if isinstance(verdict, Link) else verdict


class World(Guarded):
    """The router. `base` sets what a row starts from; `change` one setting of policy, vhost or group after it."""

    def __init__(self, folder: Path) -> None:
        self.containers = free_port()
        listener = {"host": "127.0.0.1", "port": self.containers, "role": "route-container", "management": "write"}
        extra = EXTRA + section("listener", name="containers", **listener)
        super().__init__(folder, extra, idleTimeoutSeconds=0)  # raw clients that are kept send no empty frames
        self._members = ExitStack()
        self._values: dict[str, dict[str, Any]] = {}

    def base(self, **changes: Any) -> None:
        """A new row: no client, and everything allowed in vhost VHOST, but for these `LEVEL__ATTRIBUTE`."""
        self._members.close()
        self.wait_open(0)
        self._values = {"policy": {}, "vhost": {"allowUnknownUser": True}, "group": dict(EVERYTHING)}
        for name, value in changes.items():
            level, attribute = name.split("__")
            self._values[level][attribute] = value
        self._apply()

    def change(self, setting: str, value: Any) -> None:
        """`setting`: LEVEL.ATTRIBUTE; None: as it is by default."""
        level, attribute = setting.split(".")
        if value is None:
            self._values[level].pop(attribute, None)
        else:
            self._values[level][attribute] = value
        self._apply()

    def _apply(self) -> None:
        groups = {"team": self._values["group"], "$default": self._values["group"]}
        self._values["group"].setdefault("users", "alice")
        groups["$default"] = {**self._values["group"], "users": ""}
        others = {"hostname": "other", "allowUnknownUser": True, "groups": {"$default": EVERYTHING}}
        self.set({"hostname": VHOST, "groups": groups, **self._values["vhost"]}, others, **self._values["policy"])

    def join(self, user: str | None = "alice", hostname: str = VHOST, source: str = "") -> Member:
        """A connection; see its verdict. `source`: the client's address."""
        return Member(self._members.enter_context(RawClient(self.router.port, source=source)), user, hostname)

    def leave(self, member: Member) -> None:
        """Close a connection, and wait until it no longer counts."""
        count = self.open()
        member.raw.put(Close())
        member.raw.expect(Close)
        self.wait_open(count - 1)

    def denied(self) -> int:
        """All denials until now."""
        return self.router.call(lambda: self.enforcement.counts.total_denials)

    def stop(self) -> None:
        self._members.close()
        super().stop()


def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A fixture: the router of a module."""
    made = World(tmp_path_factory.mktemp("matrix"))
    yield made
    made.stop()
