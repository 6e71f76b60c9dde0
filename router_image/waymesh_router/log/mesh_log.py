"""Log lines about the control plane: its messages at trace, what other routers announce at debug, paths at trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from waymesh_router.routing import effects as fx
from waymesh_router.routing.demand import OPCODE as DEMAND

HELLO, LINK_STATE, MOBILE = "ROUTER_HELLO", "ROUTER_LS", "ROUTER_MA"
MODULES = {
    "HELLO": HELLO, "RA": LINK_STATE, "LSU": LINK_STATE, "LSR": LINK_STATE,
    "MAU": MOBILE, "MAR": MOBILE, DEMAND: MOBILE,
}  # fmt: skip
"""The log module of each control message."""
MAX_ITEMS = 100
"""Maximum number of items written of a list or map in a control message; a table of addresses can have 100,000."""


class MeshLog:
    """Logs messages and effects of the control plane. Composes no text for a level that is off."""

    def __init__(self, log: Callable[[str, str, str], None], logs: Callable[[str, str], bool]) -> None:
        """`log(module, level, text)` writes a line; `logs(module, level)` returns whether it would be written."""
        self._log = log
        self._logs = logs

    def received(self, connection_id: int, opcode: str, body: Mapping[Any, object]) -> None:
        """A control message arrived for this router. Its content is not checked yet."""
        module = MODULES.get(opcode)
        if module is not None and self._logs(module, "trace"):
            self._log(module, "trace", f"[C{connection_id}] RCVD: {_text(opcode, body)}")

    def report(self, effects: Sequence[fx.Effect]) -> None:
        """Log effects that are about to be applied."""
        logs = self._logs
        if logs(MOBILE, "debug"):
            self._addresses(effects)
        if logs(LINK_STATE, "debug"):
            self._link_states(effects)
        if logs(LINK_STATE, "trace"):
            self._paths(effects)
        if logs(HELLO, "trace") or logs(LINK_STATE, "trace") or logs(MOBILE, "trace"):
            self._sent(effects)

    def _addresses(self, effects: Sequence[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.MobileAdd):
                self._log(MOBILE, "debug", f"Address {effect.key} of router {effect.router_id} added")
            elif isinstance(effect, fx.MobileDel):
                self._log(MOBILE, "debug", f"Address {effect.key} of router {effect.router_id} removed")
            elif isinstance(effect, fx.MobileFlush):
                self._log(MOBILE, "debug", f"All addresses of router {effect.router_id} removed")

    def _link_states(self, effects: Sequence[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.LinkStateChanged):
                costs = ", ".join(f"{peer} cost {cost}" for peer, cost in sorted(effect.peers.items()))
                self._log(LINK_STATE, "debug", f"Link state of router {effect.router_id}: {costs or 'no links'}")

    def _paths(self, effects: Sequence[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.SetNextHop):
                way = "direct, or none" if effect.next_hop is None else effect.next_hop
                self._log(LINK_STATE, "trace", f"Next hop to router {effect.router_id}: {way}")
            elif isinstance(effect, fx.SetCost):
                self._log(LINK_STATE, "trace", f"Cost to router {effect.router_id}: {effect.cost}")
            elif isinstance(effect, fx.SetValidOrigins):
                origins = ", ".join(sorted(effect.origins)) or "none"
                self._log(LINK_STATE, "trace", f"Valid origins to router {effect.router_id}: {origins}")

    def _sent(self, effects: Sequence[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.SendHello):
                opcode, where = "HELLO", f"[C{effect.link_id}] "
            elif isinstance(effect, fx.SendTo):
                opcode, where = effect.opcode, f"to {effect.router_id} "
            elif isinstance(effect, fx.SendAll):
                opcode, where = effect.opcode, "to all "
            else:
                continue
            if self._logs(MODULES[opcode], "trace"):
                self._log(MODULES[opcode], "trace", f"{where}SENT: {_text(opcode, effect.body)}")


def _text(opcode: str, body: Mapping[Any, object]) -> str:
    return f"{opcode}({' '.join(f'{key}={_value(value)}' for key, value in islice(body.items(), MAX_ITEMS))})"


def _value(value: object) -> str:
    """A value of a body, truncated if it is long."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key}: {_value(item)}" for key, item in islice(value.items(), MAX_ITEMS))
        return f"{{{inner}{_more(len(value))}}}"
    if isinstance(value, list | tuple):
        inner = ", ".join(_value(item) for item in islice(value, MAX_ITEMS))
        return f"[{inner}{_more(len(value))}]"
    return str(value)


def _more(count: int) -> str:
    return f", {count - MAX_ITEMS} more" if count > MAX_ITEMS else ""
