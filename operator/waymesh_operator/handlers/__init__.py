"""kopf: what it watches, and the thin functions that pass it on.

kopf watches and does no more. Its handlers of creations, updates and resumptions keep an annotation on objects, its
daemons a finalizer, and neither survives a failed patch well; `on.event` needs none of it. What it tells goes to the
inventory, and one worker a mesh acts on that.
"""

from __future__ import annotations

from .register import HEARTBEAT, Sink, register, settings

__all__ = ["HEARTBEAT", "Sink", "register", "settings"]
