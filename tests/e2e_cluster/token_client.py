"""A client in a pod that logs in with the token of its ServiceAccount: `python token_client.py COMMAND [ADDRESS]`.

    exchange ADDRESS   sends a message to the address and receives it
    attach ADDRESS     only attaches
    hold SECONDS       holds a connection, and tries a second one
    anonymous          has no token, and tries every way without one

The last line of its output says what came of it: `login CODE`, `closed CONDITION`, `detached CONDITION`, `exchanged`,
`attached`, or for anonymous `not let in`. Beside it lies raw_client.py, the client of raw frames of other tests; its
helpers fail with an AssertionError, and the pod with them.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Flow,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Terminus,
)

if TYPE_CHECKING:
    from tests.interop.raw_client import AMQP, SASL, Ended, RawClient
else:
    from raw_client import AMQP, SASL, Ended, RawClient

HOST, PORT = os.environ.get("HOST", ""), 5671
BODY = b"\x00\x53\x75\xa0\x05hello"


class Refused(Exception):
    """The router has ended it; the text says how."""


def connected() -> RawClient:
    """A connection with TLS, before SASL."""
    return RawClient(PORT, ssl.create_default_context(cafile="/tls/ca.crt"), HOST)


def opened() -> RawClient:
    """A connection that the router has let in."""
    raw = connected()
    raw.send(SASL)
    assert raw.read(8) == SASL
    assert set(raw.expect(SaslMechanisms).sasl_server_mechanisms) == {"OAUTHBEARER", "XOAUTH2"}
    token = Path("/token/token").read_text(encoding="ascii")
    raw.put(SaslInit(mechanism="XOAUTH2", initial_response=f"auth=Bearer {token}\x01\x01".encode()))
    code = raw.expect(SaslOutcome).code
    if code:
        raise Refused(f"login {code}")
    raw.open(sasl=False, hostname="mesh")
    raw.put(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))
    answer, _ = raw.frame()
    if isinstance(answer, Close) and answer.error is not None:
        raise Refused(f"closed {answer.error.condition}")
    assert isinstance(answer, Begin), answer
    return raw


def attached(raw: RawClient, address: str, handle: int, receiver: bool) -> None:
    """A link, or Refused."""
    source = Terminus(kind="source", address=address if receiver else None)
    target = Terminus(kind="target", address=None if receiver else address)
    count = None if receiver else 0
    raw.put(Attach(f"link-{handle}", handle, receiver, source=source, target=target, initial_delivery_count=count))
    while True:
        answer, _ = raw.frame()
        if isinstance(answer, Close | Detach) and answer.error is not None:
            raise Refused(f"{'closed' if isinstance(answer, Close) else 'detached'} {answer.error.condition}")
        if isinstance(answer, Attach) and receiver and answer.source is not None:
            return
        if isinstance(answer, Flow) and answer.handle is not None:
            return


def exchange(address: str) -> str:
    """A message through the address."""
    raw = opened()
    attached(raw, address, 0, receiver=True)
    raw.flow(0, 1)
    attached(raw, address, 1, receiver=False)
    raw.transfer(1, BODY)
    _, payload = raw.delivery()
    assert payload.endswith(BODY), payload
    return "exchanged"


def attach(address: str) -> str:
    """A receiver from the address."""
    attached(opened(), address, 0, receiver=True)
    return "attached"


def hold() -> str:
    """Two connections."""
    with opened():
        attached(opened(), "orders", 0, receiver=True)
    return "attached"


def anonymous() -> str:
    """ANONYMOUS, and no SASL at all."""
    raw = connected()
    raw.send(SASL)
    raw.read(8)
    raw.put(SaslInit(mechanism="ANONYMOUS"))
    raw.expect(SaslMechanisms)
    code = raw.expect(SaslOutcome).code
    assert code != 0, code
    raw = connected()
    raw.send(AMQP)
    try:
        raw.open(sasl=False)
    except (Ended, AssertionError):
        return "not let in"
    raise AssertionError("let in without SASL")


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    commands: dict[str, Callable[..., str]] = {
        "exchange": exchange, "attach": attach, "hold": hold, "anonymous": anonymous,
    }  # fmt: skip
    try:
        print(commands[command](*words))
    except Refused as error:
        print(error)
