"""Clients of other languages connect again, whatever ended their connection."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.chaos.client import Group
from tests.chaos.events import Attached
from tests.chaos.library import Surroundings
from tests.chaos.outside import COMMANDS, Outside
from tests.chaos.relay import Relay
from tests.chaos.workload import Plan, Receives
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(1500)]

WAIT_S = 120.0


@pytest.mark.parametrize("program", COMMANDS)
def test_a_client_that_the_router_ended_for_its_silence_connects_again(tmp_path: Path, program: str) -> None:
    """The wire is held for longer than the router waits, so that the close, with its error, comes when it is not held
    any more. rhea takes errors for final unless it is told otherwise."""
    port = free_port()
    listener = {"host": "127.0.0.1", "port": port, "saslMechanisms": "ANONYMOUS", "idleTimeoutSeconds": 2}
    config = section("router", id="A", mode="standalone") + section("listener", name="clients", **listener)
    router, relay = RouterProcess(tmp_path, "A", config, [port]).start(), Relay()
    wire = relay.wire("c", port)
    plan = Plan("A", (Receives("orders"),), program=program)
    group = Group({"c": plan}, 1, cast("Surroundings", None))
    client = Outside(group, "c", plan, {"port": wire.port, "idle_s": 60, "ca": ""}, tmp_path / "c.log")

    def attaches() -> int:
        return sum(isinstance(event, Attached) for event in group.events)

    try:
        wait_until(client.is_attached, WAIT_S, "its link")
        before, ended = attaches(), router.log.count("Connection Closed")
        relay.change(wire, "both", held=True)
        wait_until(lambda: router.log.count("Connection Closed") > ended, WAIT_S, "the end of the connection")
        relay.heal()
        wait_until(lambda: attaches() > before, WAIT_S, lambda: f"another link; {group.problems}")
    finally:
        client.close()
        relay.close()
        router.kill()
