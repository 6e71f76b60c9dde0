"""Times of a connection's input and output, and its time-outs. Spec: 2.4.5."""

from __future__ import annotations

import math

import cython

PROGRESS = cython.declare(cython.Py_ssize_t, 16384)
"""Octets of an incomplete frame that reset the idle time-out like a whole frame: slow peers need long for one."""


class TimeOuts:
    """The times of one connection, as of its last tick. Times are in seconds."""

    def __init__(self, now: cython.double, deadline: cython.double) -> None:
        self.deadline = deadline  # of the handshake, later of the peer's answer to our close
        self.last_heard = now
        self.heard_octets = -1  # of whole frames, at the last tick
        self.heard_part = 0  # octets of the incomplete frame that were counted already
        self.spoke = False  # the transport has taken output since the last tick
        self.last_spoke = now
        self.last_tick = now
        self.send_every = math.inf  # interval of heartbeats, from the peer's idle-time-out

    def update(self, now: cython.double, octets: cython.longlong, unfinished: cython.Py_ssize_t) -> cython.bint:
        """Record the input until `now`. Returns whether output was written since the last tick."""
        spoke: cython.bint = self.spoke
        if octets != self.heard_octets or unfinished - self.heard_part >= PROGRESS:
            self.heard_octets = octets
            self.heard_part = unfinished
            self.last_heard = now
        if spoke:
            self.spoke = False
            self.last_spoke = self.last_tick  # some time after that tick; the exact time is not measured
        self.last_tick = now
        return spoke

    def heartbeat_due(self, now: cython.double) -> cython.bint:
        """Whether to send a heartbeat now."""
        return now - self.last_spoke >= self.send_every

    def next_tick(self, now: cython.double, idle: cython.double) -> cython.double:
        """The time of the next tick; `idle`: the idle time-out, 0 for none."""
        following: cython.double = self.last_heard + idle if idle > 0 else math.inf
        if self.last_spoke + self.send_every < following:
            following = self.last_spoke + self.send_every
        return following if following > now else now + 0.05
