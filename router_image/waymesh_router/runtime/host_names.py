"""Addresses of host names in the rules of the access policy."""

from __future__ import annotations

import socket
import threading

LOOK_UP_S = 1.0
"""Time limit of a look-up: the router waits for it, so that a policy is either in force or refused."""


def numeric_addresses(name: str) -> list[str]:
    """The addresses of a host name. Raises ValueError if they are not found within LOOK_UP_S."""
    found: list[str] = []
    reason = [f"no answer within {LOOK_UP_S:g} s"]

    def look_up() -> None:
        try:
            infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason[0] = getattr(error, "strerror", None) or str(error)
        else:
            found.extend(dict.fromkeys(str(info[4][0]) for info in infos))

    thread = threading.Thread(target=look_up, name="resolver", daemon=True)
    thread.start()
    thread.join(LOOK_UP_S)
    if not found:
        raise ValueError(f"cannot resolve {name}: {reason[0]}")
    return found
