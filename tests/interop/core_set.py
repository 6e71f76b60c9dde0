"""The checks that every client library must pass, run by test_core_set.py.

Each check takes a `Program` and the URLs of the routers that its sender and its receivers connect to.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from tests.interop.programs import Program
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

MEBIBYTE = 1024 * 1024
ROUNDS = 20
"""Times that released messages are sent again at most."""


def digest(number: int, size: int) -> str:
    """SHA-256 of the body that the programs send."""
    return hashlib.sha256(f"{number}:{'x' * size}".encode()).hexdigest()


def numbers(result: dict[str, Any]) -> list[int]:
    """The numbers of the messages that were received."""
    return [message["number"] for message in result["messages"]]


def wait_known(send_to: str, address: str, receive_at: list[str]) -> None:
    """Wait until the router of the sender knows of all receivers; other routers tell it of theirs a little later."""
    known = (receive_at.count(send_to), len(set(receive_at) - {send_to}))

    def counts() -> list[tuple[int, int]]:
        rows = client.query("router.address", ["key", "subscriberCount", "remoteCount"])
        return [(row["subscriberCount"], row["remoteCount"]) for row in rows if row["key"] == f"M0{address}"]

    with ManagementClient(send_to) as client:
        wait_until(lambda: counts() == [known], what=f"{known} receivers and other routers of {address}")


def check_one_to_one(program: Program, address: str, send_to: str, receive_at: str, presettled: bool = False) -> None:
    """100 messages in order, nothing lost, duplicated or changed, settled as asked."""
    receiver = program("receive", url=receive_at, address=address, count=100, presettled=presettled).wait_ready()
    sender = program("send", url=send_to, address=address, count=100, size=100, presettled=presettled)
    assert sender.result()["outcomes"] == {"presettled" if presettled else "accepted": 100}
    received = receiver.result()
    assert numbers(received) == list(range(100))
    assert {message["settled"] for message in received["messages"]} == {presettled}
    assert [message["sha256"] for message in received["messages"]] == [digest(number, 100) for number in range(100)]


def check_shared(program: Program, address: str, send_to: str, receive_at: list[str]) -> None:
    """Balanced, or closest at equal cost: each receiver takes what it has credit for, together all of them once."""
    receivers = [program("receive", url=url, address=address, count=20).wait_ready() for url in receive_at]
    wait_known(send_to, address, receive_at)
    total = 20 * len(receivers)
    sender = program("send", url=send_to, address=address, count=total)
    assert sender.result()["outcomes"] == {"accepted": total}
    taken = [number for receiver in receivers for number in numbers(receiver.result())]
    assert sorted(taken) == list(range(total))


def check_shared_by_routers(program: Program, address: str, send_to: str, receive_at: list[str]) -> None:
    """Balanced over receivers at several routers: all are used, and what was accepted was received once.

    A router does not know the credit of receivers at others. What is on its way to one that has left is released.
    """
    receivers = [program("receive", url=url, address=address, count=20).wait_ready() for url in receive_at]
    wait_known(send_to, address, receive_at)
    left = 20 * len(receivers)
    sent: Counter[int] = Counter()
    for _ in range(ROUNDS):
        sent.update(range(left))
        outcomes = program("send", url=send_to, address=address, count=left).result()["outcomes"]
        assert outcomes.keys() <= {"accepted", "released"}
        left = outcomes.get("released", 0)
        if not left:
            break
    assert left == 0
    taken = [numbers(receiver.result()) for receiver in receivers]
    assert [len(one) for one in taken] == [20] * len(receivers)
    assert Counter(number for one in taken for number in one) <= sent


def check_multicast(program: Program, address: str, send_to: str, receive_at: list[str]) -> None:
    """Each receiver gets each message once, in order."""
    receivers = [program("receive", url=url, address=address, count=20).wait_ready() for url in receive_at]
    wait_known(send_to, address, receive_at)
    sender = program("send", url=send_to, address=address, count=20)
    assert sender.result()["outcomes"] == {"accepted": 20}
    for receiver in receivers:
        assert numbers(receiver.result()) == list(range(20))


def check_outcomes(program: Program, address: str, send_to: str, receive_at: str) -> None:
    """Every outcome comes back to the sender."""
    outcomes = ["accept", "reject", "release", "modify"]
    receiver = program("receive", url=receive_at, address=address, count=40, outcomes=outcomes).wait_ready()
    sender = program("send", url=send_to, address=address, count=40)
    assert sender.result()["outcomes"] == {"accepted": 10, "rejected": 10, "released": 10, "modified": 10}
    receiver.result()


def check_request_reply(program: Program, address: str, ask_at: str, answer_at: str) -> None:
    """Requests with a dynamic reply-to, answered through an anonymous sender."""
    responder = program("respond", url=answer_at, address=address, count=10).wait_ready()
    replies = program("request", url=ask_at, address=address, count=10, size=3).result()["replies"]
    assert responder.result()["answered"] == 10
    wanted = Counter((f"request-{number}", f"{number}:XXX") for number in range(10))
    assert Counter((reply["correlation_id"], reply["body"]) for reply in replies) == wanted


def check_large(program: Program, address: str, send_to: str, receive_at: str) -> None:
    """A message of 1 MiB, twice."""
    receiver = program("receive", url=receive_at, address=address, count=2).wait_ready()
    sender = program("send", url=send_to, address=address, count=2, size=MEBIBYTE)
    assert sender.result()["outcomes"] == {"accepted": 2}
    messages = receiver.result()["messages"]
    assert [message["sha256"] for message in messages] == [digest(number, MEBIBYTE) for number in range(2)]
