"""Web pages that may use a listener, by the header field Origin of their browsers' requests. Pure. Decision 0028"""

from __future__ import annotations

import re
from ipaddress import ip_address

ANY_ORIGIN = "*"
OTHER_HOST = "this listener is on loopback, and the request is for another host; see allowedOrigins"
OTHER_ORIGIN = "the origin is neither that of this listener nor in its allowedOrigins"
_PORT = re.compile(r":\d*$")
_DEFAULT_PORT = re.compile(r"^(http://.*):80$|^(https://.*):443$")


class Origins:
    """The origins of web pages whose scripts may open a WebSocket, or read a page that needs a login: that of the
    listener and its `allowedOrigins`."""

    def __init__(self, allowed: str) -> None:
        """`allowed`: origins, separated by spaces; `*` matches all."""
        self._allowed = frozenset(map(_normal, allowed.split()))

    def admit(self, origin: str | None, host: str, *, secure: bool) -> bool:
        """`origin`: as the browser sent it; None from other programs, which are admitted. `host`: the field Host."""
        if origin is None or ANY_ORIGIN in self._allowed:
            return True
        return _normal(origin) in {*self._allowed, _normal(f"{'https' if secure else 'http'}://{host}")}


class LoopbackHosts:
    """The field Host of requests at a listener on loopback to which anybody may connect: it must name loopback, or a
    host of `allowedOrigins`.

    Otherwise a web page could lead a name of its own to 127.0.0.1 and act as one of the listener's own origin.
    """

    def __init__(self, allowed: str) -> None:
        """`allowed`: origins, separated by spaces."""
        self._any = ANY_ORIGIN in allowed.split()
        self._names = {host_name(origin.partition("://")[2].lower()) for origin in allowed.split()} | {"localhost"}

    def admit(self, host: str) -> bool:
        """Whether a request with this field Host is answered."""
        name = host_name(host.lower())
        return self._any or name in self._names or is_loopback(name.strip("[]"))


def is_loopback(address: str) -> bool:
    """Whether it is a loopback address, or the name of one."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def host_name(host: str) -> str:
    """The host of a field Host, without its port."""
    return _PORT.sub("", host)


def _normal(origin: str) -> str:
    """An origin in the form of browsers: lower case, without the default port of its scheme."""
    found = _DEFAULT_PORT.match(origin.lower())
    return (found[1] or found[2]) if found else origin.lower()
