"""Web pages that may use a listener, by the header field Origin of their browsers' requests. Pure. Decision 0028"""

from __future__ import annotations

import re

ANY_ORIGIN = "*"
OTHER_ORIGIN = "the origin is neither that of this listener nor in its allowedOrigins"
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


def _normal(origin: str) -> str:
    """An origin in the form of browsers: lower case, without the default port of its scheme."""
    found = _DEFAULT_PORT.match(origin.lower())
    return (found[1] or found[2]) if found else origin.lower()
