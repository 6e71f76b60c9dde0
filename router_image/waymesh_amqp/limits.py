"""Limits that AMQP 1.0 sets, and those that this engine tells its peers.

They are here, and not in the modules of the endpoints, because those import each other: a module that is not fully
loaded yet has no constants.
"""

from __future__ import annotations

from typing import Final

MIN_MAX_FRAME: Final = 512
"""MIN-MAX-FRAME-SIZE: every peer takes frames of this size. Spec: 2.8.19."""
HANDLE_MAX: Final = 65535
"""The highest link handle that a peer may use in a session. Spec: 2.7.2."""
OUTGOING_WINDOW: Final = 0x7FFFFFFF
"""Our outgoing-window: what we may still send has no limit of its own. Spec: 2.5.6."""
UNLIMITED_LINKS: Final = 0x7FFFFFFF
"""`max_links` of connections that carry the links of many clients."""
