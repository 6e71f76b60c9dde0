"""Sequence numbers of the state that other routers announce. They show which messages are outdated."""

from __future__ import annotations

import math

# Messages that later ones have overtaken arrive within this time.
OVERTAKEN_S = 1.0


class Sequence:
    """The sequence numbers of one part of another router's state: its link state or its mobile addresses.

    In a changing mesh, a message can arrive after its successors, over a longer path. Therefore a lower sequence than
    the highest one is only valid if RAs have had it for some time: then the router has restarted within one second.
    """

    __slots__ = ("_lower", "_lower_since", "announced", "known")

    def __init__(self) -> None:
        # The sequence of the recorded state; 0: no state is recorded.
        self.known = 0
        # The highest sequence in a message; None: no message had one.
        self.announced: int | None = None
        # The sequence in the last RA if it is lower than `announced`, and the time of the first such RA (inf: none).
        self._lower = 0
        self._lower_since = math.inf

    def announce(self, seq: int, now: float) -> None:
        """Process the sequence in an RA."""
        if self.announced is None or seq >= self.announced:
            self._set_announced(seq)
        else:
            self._lower = seq
            self._lower_since = min(self._lower_since, now)

    def note(self, seq: int) -> None:
        """Process the sequence in a message other than an RA."""
        if self.announced is None or seq > self.announced:
            self._set_announced(seq)

    def record(self, seq: int, now: float) -> None:
        """A complete state with this sequence was received and recorded."""
        self.known = seq
        if self.announced is None or seq >= self.announced or self._is_restart(seq, now):
            self._set_announced(seq)

    def is_overtaken(self, seq: int, now: float) -> bool:
        """Whether a message with this sequence is older than the recorded state."""
        return seq < self.known and not self._is_restart(seq, now)

    @property
    def doubtful(self) -> bool:
        """Whether the last RA had a lower sequence than the highest: it is late, or the router has restarted."""
        return self._lower_since < math.inf

    @property
    def certain(self) -> int:
        """`known`, or 0 if it is doubtful: a router always answers a request with 0."""
        return 0 if self.doubtful else self.known

    @property
    def current(self) -> bool:
        """Whether the recorded state is certainly the announced one."""
        return self.known == self.announced and not self.doubtful

    def _set_announced(self, seq: int) -> None:
        self.announced = seq
        self._lower_since = math.inf

    def _is_restart(self, seq: int, now: float) -> bool:
        return seq >= self._lower and now - self._lower_since >= OVERTAKEN_S
