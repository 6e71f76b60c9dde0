"""Clients that connect and leave at once, so many a second: load for a router that costs its client little.

Called as `python connecting.py HOST PORT RATE`; ends when it is killed.
"""

from __future__ import annotations

import socket
import sys
import time

SASL = b"AMQP\x03\x01\x00\x00"
AMQP = b"AMQP\x00\x01\x00\x00"
TIMEOUT_S = 10.0
PAUSE_S = 0.05


def frame(kind: int, body: bytes) -> bytes:
    """A frame of channel 0; `kind` is 1 for SASL."""
    return (8 + len(body)).to_bytes(4, "big") + bytes((2, kind, 0, 0)) + body


def performative(code: int, field: bytes = b"") -> bytes:
    """One with a single field at most, already encoded."""
    fields = b"\xc0" + bytes((1 + len(field), 1)) + field if field else b"\x45"
    return b"\x00\x53" + bytes((code,)) + fields


INIT = frame(1, performative(0x41, b"\xa3\x09ANONYMOUS"))
OPEN = frame(0, performative(0x10, b"\xa1\x08visiting"))
CLOSE = frame(0, performative(0x18))
ALL = SASL + INIT + AMQP + OPEN + CLOSE


def visit(host: str, port: int) -> None:
    """From the first byte to the end of the connection, which is the router's; it must have answered Open."""
    with socket.create_connection((host, port), TIMEOUT_S) as connection:
        connection.sendall(ALL)
        said = b""
        while chunk := connection.recv(65536):
            said += chunk
    if b"\x00\x53\x10" not in said:
        raise ConnectionError(f"no Open in {said!r}")


def main() -> None:
    """Visits at the rate; a router that is on its way out may refuse."""
    host, port, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    due, visits = time.monotonic(), 0
    while True:
        due = max(due + 1 / rate, time.monotonic() - PAUSE_S)
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            visit(host, port)
        except OSError as error:
            print(error, flush=True)
            time.sleep(PAUSE_S)
        else:
            visits += 1
            if visits % 1000 == 1:
                print(f"{visits} visits", flush=True)


if __name__ == "__main__":
    main()
