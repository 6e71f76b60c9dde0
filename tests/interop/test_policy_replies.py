"""Where the router sends replies to management requests of clients that policy limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.guarded import EVERYTHING, Guarded, vhost
from tests.interop.raw_client import RawClient
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.performatives import Attach, Terminus

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

SMALL = {"remoteHosts": "*", "sources": "own.*, ${user}", "targets": "$management, told.*", "allowDynamicSource": True}
PUBLIC = ("own.1", "told.1", "secret", "ownership", "anonymous", "all")
DYNAMIC, LAST = 98, 99


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path)
    yield guarded
    guarded.stop()


def ask(raw: RawClient, handle: int, reply_to: str, number: int) -> None:
    request = Message(reply_to=reply_to, correlation_id=number, application_properties={"operation": "GET-TYPES"})
    raw.transfer(handle, encode_message(request), settled=True)


@pytest.mark.parametrize("dry_run", [False, True])
def test_replies_go_to_addresses_that_the_client_may_use(guarded: Guarded, dry_run: bool) -> None:
    everything = {**vhost(EVERYTHING), "hostname": "other"}
    guarded.set(vhost(SMALL), everything, dryRun=dry_run)
    with RawClient(guarded.router.port) as other, RawClient(guarded.router.port) as raw:
        other.open(hostname="other")
        other.begin()
        for address in PUBLIC:
            other.attach_receiver(address, credit=100)
        raw.open()
        raw.begin()
        raw.put(Attach("replies", 9, role=True, source=Terminus("source", dynamic=True), target=Terminus("target")))
        source = raw.expect(Attach).source
        assert source is not None
        dynamic = str(source.address)
        raw.flow(9, 100)
        handle = raw.attach_sender("$management")
        allowed = ["own.1", "/own.1", "amqp:/told.1", "amqp://host/anonymous", "own.1"]
        refused = ["secret", "/secret", "amqp:/secret", "amqp://own.1/secret", "ownership", "all", "//secret", "Own.1"]
        for number, reply_to in enumerate([*refused, *allowed]):
            ask(raw, handle, reply_to, number)
        ask(raw, handle, dynamic, DYNAMIC)
        ask(raw, handle, "own.1", LAST)
        assert decode_message(raw.delivery()[1]).correlation_id == DYNAMIC
        found = set()
        while LAST not in found:
            found.add(decode_message(other.delivery()[1]).correlation_id)
    arrives = set(range(len(refused), len(refused) + len(allowed)))
    if dry_run:
        arrives |= {number for number, reply_to in enumerate(refused) if reply_to not in ("//secret", "Own.1")}
    assert found - {LAST} == arrives
    counts = guarded.router.call(lambda: guarded.enforcement.counts)
    assert counts.dry_run.denials == (len(refused) if dry_run else 0)
    assert guarded.router.call(lambda: guarded.router.router.core.denied["management"]) == (
        0 if dry_run else len(refused)
    )
