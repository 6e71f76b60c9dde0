"""One autolink: its entity, and its link on each connection of the container.

Dispatch book "Indirect Waypoints and Auto-Links", routing chapter "Connecting a Router to the Broker".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.codec_values import Described, Symbol
from waymesh_amqp.errors import NOT_ALLOWED, UNAUTHORIZED_ACCESS
from waymesh_amqp.filters import NO_LOCAL, NO_LOCAL_DESCRIPTORS, SELECTOR, SELECTOR_DESCRIPTORS
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_router.core.addresses.keys import MOBILE, bare_address
from waymesh_router.core.containers.registry import place_of
from waymesh_router.core.forwarding.annotations import FALLBACK

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection, RouterLink

INACTIVE, ATTACHING, FAILED, ACTIVE, QUIESCING = "inactive", "attaching", "failed", "active", "quiescing"
STATES = (INACTIVE, ATTACHING, FAILED, ACTIVE, QUIESCING)
_BEST_FIRST = (ACTIVE, ATTACHING, FAILED)
FIRST_RETRY_S = 0.5
LAST_RETRY_S = 30.0
FIRST_FORBIDDEN_S = 10.0
LAST_FORBIDDEN_S = 300.0
"""Delay after a refusal: retrying sooner is useless until someone changes the container's configuration."""
STABLE_S = 10.0
"""After a link was active for this long, retries start again with the shortest delay."""
OUTCOMES: list[str] = [Symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified")]


class AutoLinkEnd:
    """The link of an autolink on one connection of its container. `retry_at`: math.inf if no retry is due."""

    def __init__(self, auto: AutoLink, conn: RouterConnection, number: int) -> None:
        self.auto = auto
        self.conn = conn
        self.number = number  # 0 for the first connection of the container, then 1, 2 …; part of the link name
        self.link: RouterLink | None = None
        self.needs_own_session = False
        """The session ended during the attach: use a separate session, so that retries do not end other links."""
        self.not_granted: str | None = None  # why this router ends the link that the container attached
        self.last_error: str | None = None
        self.delay_s = 0.0
        self.forbidden_s = 0.0
        self.retry_at = math.inf
        self.active_at = math.inf
        self._status = ATTACHING

    @property
    def status(self) -> str:
        """attaching, failed or active."""
        return self._status

    @status.setter
    def status(self, status: str) -> None:
        self._status = status
        self.auto.refresh()

    def active(self, now: float) -> None:
        """The link is attached and serves the address."""
        self.last_error, self.active_at = None, now
        self.auto.last_error = None
        self.status = ACTIVE

    def failed(self, condition: str, text: str, now: float) -> None:
        """The container refused or detached the link: retry after a delay that grows with each failure."""
        if now - self.active_at >= STABLE_S:
            self.delay_s = self.forbidden_s = 0.0
        self.last_error, self.active_at = text, math.inf
        self.auto.last_error = text
        if condition in (NOT_ALLOWED, UNAUTHORIZED_ACCESS):
            self.forbidden_s = min(self.forbidden_s * 2 or FIRST_FORBIDDEN_S, LAST_FORBIDDEN_S)
            self.retry_at = now + self.forbidden_s
        else:
            self.delay_s = min(self.delay_s * 2 or FIRST_RETRY_S, LAST_RETRY_S)
            self.retry_at = now + self.delay_s
        self.status = FAILED


class AutoLink:
    """One autoLink entity. `key`: the address within the mesh; `ends`: by id of the connection."""

    def __init__(self, attrs: Mapping[str, Any], changed: Callable[[AutoLink, str, str], object]) -> None:
        """`changed(self, before, after)` is called after each change of `status`."""
        self.attrs = attrs
        self._changed = changed
        self.incoming: bool = attrs["direction"] == "in"
        phase = attrs.get("phase")
        self.phase: int = int(self.incoming) if phase is None else int(phase)
        self.address = bare_address(attrs["address"])
        self.fallback = bool(attrs.get("fallback"))
        if self.fallback and self.incoming and phase is None:
            self.phase = 0  # returned messages are for the consumers of the address
        to_fallback = self.fallback and not self.incoming
        self.key = f"{MOBILE}{FALLBACK if to_fallback else self.phase}{self.address}"
        self.place = place_of(attrs)
        self.ends: dict[int, AutoLinkEnd] = {}
        self.last_error: str | None = None
        self.status = INACTIVE
        self.quiescing_since = math.inf

    @property
    def quiescing(self) -> bool:
        """Whether the autolink is being removed."""
        return self.quiescing_since < math.inf

    @property
    def link(self) -> RouterLink | None:
        """The first of its links; None if it has none."""
        return next((end.link for end in self.ends.values() if end.link is not None), None)

    def refresh(self) -> None:
        """Set `status` to that of the best link."""
        found = {end.status for end in self.ends.values()}
        status = next((status for status in _BEST_FIRST if status in found), INACTIVE)
        before, self.status = self.status, QUIESCING if self.quiescing else status
        if self.status != before:
            self._changed(self, before, self.status)

    def new_end(self, conn: RouterConnection) -> AutoLinkEnd:
        """Create the end for a connection of the container."""
        taken = {end.number for end in self.ends.values()}
        number = next(number for number in range(len(taken) + 1) if number not in taken)
        end = self.ends[conn.id] = AutoLinkEnd(self, conn, number)
        return end

    def terms(self, router_id: str, unique: str, number: int) -> Attach:
        """The attach that this router sends. `unique`: different for every router, even for one with the same id."""
        address = self.attrs.get("externalAddress") or self.attrs["address"]
        source = Terminus("source", address=address, outcomes=OUTCOMES)
        target = Terminus("target", address=address)
        source.filter = self.filters() or None
        mode = self.attrs.get("distributionMode")
        source.distribution_mode = None if mode is None else Symbol(mode)
        capabilities: list[str] = [Symbol(one) for one in (self.attrs.get("capabilities") or "").split()]
        (source if self.incoming else target).capabilities = capabilities or None
        properties = self.attrs.get("linkProperties") or {}
        return Attach(
            name=f"{router_id}.{self.attrs['identity']}.{unique}" + (f".{number}" if number else ""),
            handle=0,
            role=self.incoming,
            snd_settle_mode=2,
            rcv_settle_mode=0,
            source=source,
            target=target,
            properties={Symbol(key): value for key, value in properties.items()} or None,
        )

    def filters(self) -> dict[Any, Any]:
        """The filter set of the source."""
        found: dict[Any, Any] = {}
        selector = self.attrs.get("selector")
        if selector:
            found[Symbol("selector")] = Described(SELECTOR, selector)
        if self.attrs.get("noLocal"):
            found[Symbol("no-local")] = Described(NO_LOCAL, [])
        return found

    def not_granted(self, answer: Attach) -> str | None:
        """Why an answer is not what was asked for; None if it is.

        A container leaves out of its answer each filter that it does not apply. Spec: 3.5.3
        """
        source = answer.source
        if not self.incoming or source is None:
            return None
        granted = {f.descriptor for f in (source.filter or {}).values() if isinstance(f, Described)}
        for attribute, names in (("selector", SELECTOR_DESCRIPTORS), ("noLocal", NO_LOCAL_DESCRIPTORS)):
            if self.attrs.get(attribute) and not granted.intersection(names):
                return f"the container does not apply {attribute}"
        mode = self.attrs.get("distributionMode")
        if mode is not None and source.distribution_mode != mode:
            answered = source.distribution_mode or "none"
            return f"the container does not grant distributionMode {mode} (its answer: {answered})"
        return None
