"""The policy matrix for sessions, links, messages and management: as test_policy_matrix.py for connections.

`test_each_setting_has_a_row` names the settings that other modules test.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.guarded import LIMIT, UNAUTHORIZED
from tests.interop.matrix_world import OK, VHOST, Link, Member, World, running
from tests.interop.test_policy_matrix import CONNECTIONS, RATES, WHO
from waymesh_amqp.performatives import Begin, Disposition, End, Flow, Transfer
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_schema.entities import ENTITY_TYPES

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

world = pytest.fixture(scope="module")(running)


# ---- numbers of links and sessions
@pytest.mark.parametrize(("setting", "receiver"), [("group.maxSenders", False), ("group.maxReceivers", True)])
def test_a_number_of_links(world: World, setting: str, receiver: bool) -> None:
    world.base(group__sources="a", group__targets="a")
    world.change(setting, 2)
    member, other = world.join(), world.join()

    def take() -> Link | str:
        return member.attach(receiver, "a")

    kept = [take(), take()]
    assert all(isinstance(link, Link) for link in kept)
    assert [take(), take()] == [LIMIT, LIMIT]
    assert [member.tries(not receiver, "a"), other.tries(receiver, "a")] == [OK, OK]  # of each connection and direction
    world.change(setting, 3)
    assert member.tries(receiver, "b") == UNAUTHORIZED  # a link that is refused does not count
    kept.append(take())
    assert take() == LIMIT
    world.change(setting, 1)
    for link in kept:
        assert isinstance(link, Link)
        assert link.lives()
    while kept:
        assert take() == LIMIT
        link = kept.pop()
        assert isinstance(link, Link)
        link.close()
    assert isinstance(take(), Link)
    world.change(setting, 0)
    assert take() == LIMIT


def test_a_number_of_sessions(world: World) -> None:
    world.base(group__maxSessions=2)
    member = world.join()
    assert member.opened.channel_max == 1
    member.raw.begin(1)
    world.change("group.maxSessions", 3)  # the number is part of the open: it is that of the next connection
    member.raw.put(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=2)
    assert member.raw.close_error()[0] == "amqp:connection:framing-error"
    member = world.join()
    assert member.opened.channel_max == 2
    world.change("group.maxSessions", 1)
    member.raw.begin(1)
    member.raw.begin(2)
    assert world.join().opened.channel_max == 0
    world.change("group.maxSessions", 0)  # as the listener has it
    assert world.join().opened.channel_max == 32767


# ---- sizes
@pytest.mark.parametrize("level", ["policy", "vhost", "group"])
def test_a_size_of_messages(world: World, level: str) -> None:
    setting = f"{level}.maxMessageSize"
    world.base(policy__maxMessageSize=10**6)
    world.change(setting, 400)
    member, receiving = world.join(), world.join()
    assert isinstance(receiving.attach(True, "a"), Link)
    receiving.raw.flow(0, 10)
    old = sender(member, "a")
    assert old.attach.max_message_size == 400
    assert arrives(old, receiving, message(400))
    world.change(setting, 500)
    new = sender(member, "a")
    assert new.attach.max_message_size == 500
    assert arrives(new, receiving, message(500))
    world.change(setting, 0)  # no limit
    assert arrives(sender(member, "a"), receiving, message(5000))
    for link, size in ((new, 500), (old, 400)):  # open links keep what they were told
        assert arrives(link, receiving, message(size))
    member.raw.transfer(old.handle, message(401), settled=True)
    assert member.raw.close_error()[0] == "amqp:connection:forced"


def sender(member: Member, address: str) -> Link:
    """A sending link that has credit."""
    link = member.attach(False, address)
    assert isinstance(link, Link)
    while True:
        flow = member.raw.expect(Flow)
        if flow.handle == link.attach.handle and flow.link_credit:
            return link


def message(size: int) -> bytes:
    """A message of this many bytes."""
    return b"\x00\x53\x75\xb0" + (size - 8).to_bytes(4, "big") + b"x" * (size - 8)


def arrives(link: Link, receiving: Member, octets: bytes) -> bool:
    """Whether it is this message that comes next."""
    link.client.raw.transfer(link.handle, octets, settled=True)
    return receiving.raw.delivery()[1] == octets


def test_a_size_of_frames(world: World) -> None:
    world.base(group__maxFrameSize=512)
    member = world.join()
    assert member.opened.max_frame_size == 512
    world.change("group.maxFrameSize", 1016)
    for found, size in ((member, 512), (world.join(), 1016)):  # the open connection keeps what it was told
        assert found.opened.max_frame_size == size
        found.raw.send(empty_frame(size))
        assert found.answers()
        found.raw.send(empty_frame(size + 4))
        assert found.raw.close_error()[0] == "amqp:connection:framing-error"
    world.change("group.maxFrameSize", 0)  # as the listener has it
    assert world.join().opened.max_frame_size == 16384


def empty_frame(size: int) -> bytes:
    """A frame of this many bytes, all of them header: at most 1020, in words of four. Spec: 2.3.1"""
    return size.to_bytes(4, "big") + bytes([size // 4, 0, 0, 0]) + bytes(size - 8)


def test_a_window_of_sessions(world: World) -> None:
    world.base(group__maxFrameSize=512)
    windows = {}
    for size in (1, 511, 512, 1023, 1024, 5120):
        world.change("group.maxSessionWindow", size)
        begun = world.join().begun
        windows[size] = begun.incoming_window if begun is not None else None
    assert windows == {1: 1, 511: 1, 512: 1, 1023: 1, 1024: 2, 5120: 10}  # in frames, at least one
    member, receiving = world.join(), world.join()
    assert isinstance(receiving.attach(True, "a"), Link)  # gives no credit: what comes waits in the router
    link = sender(member, "a")
    for _ in range(20000):
        member.raw.put(Transfer(handle=link.handle, delivery_id=0, delivery_tag=b"0", more=True), bytes(450))
    while not isinstance(answer := member.raw.frame()[0], End):
        pass
    assert answer.error is not None
    assert str(answer.error.condition) == "amqp:session:window-violation"


# ---- what links and messages need: setting → a link of a client that needs it
NEEDS: dict[str, Callable[[Member], Link | str]] = {
    "group.allowDynamicSource": lambda member: member.attach(True, None, True),
    "group.allowAnonymousSender": lambda member: member.attach(False, None),
    "group.allowWaypointLinks": lambda member: member.attach(False, "w.1", False, "qd.waypoint_1"),
    "group.allowFallbackLinks": lambda member: member.attach(True, "f.1", False, "qd.fallback"),
}


@pytest.mark.parametrize("setting", NEEDS)
def test_a_link_that_needs_a_setting(world: World, setting: str) -> None:
    attach = NEEDS[setting]
    world.base()
    before = world.denied()
    world.change(setting, True)
    member = world.join()
    assert isinstance(link := attach(member), Link)
    world.change(setting, False)
    assert [attach(member), attach(world.join())] == [UNAUTHORIZED, UNAUTHORIZED]
    assert link.lives()
    world.change(setting, True)
    assert isinstance(attach(member), Link)
    assert world.denied() - before == 2


def test_the_user_of_a_message(world: World) -> None:
    of_bob = b"\x00\x53\x73\xc0\x07\x02\x40\xa0\x03bob" + message(20)
    world.base(group__allowUserIdProxy=False)
    member, receiving = world.join(), world.join()
    assert isinstance(receiving.attach(True, "a"), Link)
    receiving.raw.flow(0, 10)
    bound = sender(member, "a")
    world.change("group.allowUserIdProxy", True)
    free = sender(member, "a")
    world.change("group.allowUserIdProxy", False)
    before = world.denied()
    member.raw.transfer(bound.handle, of_bob)
    assert b"amqp:unauthorized-access" in rejection(member)  # not free: the link is from before the change
    assert arrives(free, receiving, of_bob)
    assert arrives(bound, receiving, message(20))
    assert world.denied() - before == 1


def rejection(member: Member) -> bytes:
    """The disposition that comes next."""
    member.raw.expect(Disposition)
    return member.raw.last


# ---- addresses: setting → value, addresses that it allows (the first ones barely), addresses just beyond
ADDRESSES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "sources": ("a, b*, c.${user}", ("a", "/a", "b", "b.c", "c.alice"), ("aa", "A", "a.b", "c", "c.alice2", "c.bob")),
    "targets": ("a, b*, c.{user}.*", ("a", "amqp:/a", "b", "c.alice.", "c.alice.x"), ("aa", "c.alice", "c.bob.x")),
    "sourcePattern": ("a.*, b.#, c.${user}", ("a.b", "a/b", "b", "b.c.d", "c.alice"), ("a", "a.b.c", "bc", "c.bob")),
    "targetPattern": ("*, b.*.c", ("a", "b.x.c"), ("a.b", "b.c", "b.x.y.c")),
}


@pytest.mark.parametrize("setting", ADDRESSES)
def test_addresses(world: World, setting: str) -> None:
    value, allowed, denied = ADDRESSES[setting]
    receiver = setting.startswith("source")
    world.base(group__sources=None, group__targets=None)
    member = world.join()
    assert member.tries(receiver, "a") == UNAUTHORIZED  # neither list nor pattern
    world.change(f"group.{setting}", value)
    found = {address: member.tries(receiver, address) for address in (*allowed, *denied)}
    assert found == {**dict.fromkeys(allowed, OK), **dict.fromkeys(denied, UNAUTHORIZED)}
    assert member.tries(not receiver, allowed[0]) == UNAUTHORIZED
    link = member.attach(receiver, allowed[0])
    world.change(f"group.{setting}", "")
    assert member.tries(receiver, allowed[0]) == UNAUTHORIZED  # an empty one allows nothing
    assert isinstance(link, Link)
    assert link.lives()
    world.change(f"group.{setting}", "other")
    assert [member.tries(receiver, "other"), member.tries(receiver, allowed[0])] == [OK, UNAUTHORIZED]


# ---- management: setting → value that allows, value that denies, and a request
def kill_nobody(manager: ManagementClient) -> None:
    """A change of adminStatus. Policy decides before it is seen that there is no such connection."""
    manager.update({"adminStatus": "deleted"}, "connection", identity="999999")


def create_link_route(manager: ManagementClient) -> None:
    name = "router.connection.linkRoute"
    manager.create(name, {"pattern": "jobs.#", "direction": "in"}, name="jobs")
    manager.delete(name, name="jobs")


MANAGEMENT: dict[str, tuple[Any, tuple[Any, ...], Callable[[ManagementClient], object], int]] = {
    "group.allowAdminStatusUpdate": (True, (False,), kill_nobody, 400),
    "group.allowDynamicLinkRoutes": (True, (False,), create_link_route, 0),
    "group.linkRoutePattern": ("jobs.#", ("jobs", "other.#"), create_link_route, 0),
    "group.management": ("read", ("none",), lambda manager: manager.query("router"), 0),
}


@pytest.mark.parametrize("setting", MANAGEMENT)
def test_a_management_request(world: World, setting: str) -> None:
    """0: it succeeds."""
    allowing, denying, request, status = MANAGEMENT[setting]

    def answer(manager: ManagementClient) -> int:
        try:
            request(manager)
        except ManagementError as error:
            return error.status or -1
        return 0

    world.base(policy__defaultVhost=VHOST)
    world.change(setting, allowing)
    with ManagementClient(f"amqp://127.0.0.1:{world.containers}", timeout_s=20.0) as manager:
        for value, expected in ((allowing, status), *((value, 403) for value in denying), (allowing, status)):
            world.change(setting, value)
            assert answer(manager) == expected, value  # the next request of an open connection


# ---- all of them
ELSEWHERE = {
    "policy.policyDir": "tests/unit/management/test_policy_folder.py",
    "policy.dryRun": "tests/interop/test_proton_policy_dry_run.py",
    "vhost.dryRun": "tests/unit/policy/test_policy_rates.py",
    "policy.warnAtPercent": "tests/interop/test_limits_connections.py",
    "vhost.warnAtPercent": "tests/unit/policy/test_policy_rates.py",
}
BY_NAME = {
    "group.maxSenders", "group.maxReceivers", "group.maxSessions", "group.maxFrameSize", "group.maxSessionWindow",
    "policy.maxMessageSize", "vhost.maxMessageSize", "group.maxMessageSize", "group.allowUserIdProxy",
}  # fmt: skip
"""Settings with a test of their own above."""


def test_each_setting_has_a_row() -> None:
    rows = {*CONNECTIONS, *RATES, *WHO, *NEEDS, *MANAGEMENT, *BY_NAME, *(f"group.{name}" for name in ADDRESSES)}
    levels = {"policy": "policy", "vhost": "vhost", "group": "vhostUserGroupSettings"}
    settings = {
        f"{level}.{name}"
        for level, entity in levels.items()
        for name, attribute in ENTITY_TYPES[entity].attributes.items()
        if (attribute.create or attribute.update) and name not in ("name", "type", "groups")
    }
    assert rows | set(ELSEWHERE) == settings
    for setting, file in ELSEWHERE.items():
        assert setting.split(".")[1] in Path(file).read_text(encoding="utf-8"), file
