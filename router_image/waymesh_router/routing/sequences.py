"""Sequences of what routers announce, and which messages are older than what is known."""

from __future__ import annotations

import math

# Messages that others have overtaken arrive within this time.
OVERTAKEN_S = 1.0


class Sequence:
    """The sequence of one part of another router's state: of its link state, or of its addresses.

    In a changing mesh, a message can arrive after its successors, over a longer path. Therefore a lower sequence than
    the highest one counts only if RAs have had it for some time: the router restarted within one second of its clock.
    """

    __slots__ = ("_lower", "_lower_since", "announced", "known")

    def __init__(self) -> None:
        # That of the recorded state; 0: none is recorded.
        self.known = 0
        # The highest one in a message; None: not announced.
        self.announced: int | None = None
        # The one in the last RA if it is lower than the highest, and since when RAs have been lower; inf: they are not.
        self._lower = 0
        self._lower_since = math.inf

    def announce(self, seq: int, now: float) -> None:
        """An RA has this sequence."""
        if self.announced is None or seq >= self.announced:
            self._set_announced(seq)
        else:
            self._lower = seq
            self._lower_since = min(self._lower_since, now)

    def note(self, seq: int) -> None:
        """A message other than an RA has this sequence."""
        if self.announced is None or seq > self.announced:
            self._set_announced(seq)

    def record(self, seq: int, now: float) -> None:
        """The state with this sequence, as the router sent it as a whole, is recorded."""
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
        """The known one, 0 in doubt: a request with 0 is answered, whatever the router has."""
        return 0 if self.doubtful else self.known

    @property
    def current(self) -> bool:
        """Whether the recorded state is the announced one, without doubt."""
        return self.known == self.announced and not self.doubtful

    def _set_announced(self, seq: int) -> None:
        self.announced = seq
        self._lower_since = math.inf

    def _is_restart(self, seq: int, now: float) -> bool:
        return seq >= self._lower and now - self._lower_since >= OVERTAKEN_S
