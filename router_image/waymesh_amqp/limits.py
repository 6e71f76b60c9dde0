"""Limits of AMQP 1.0, and limits that this engine announces to peers.

They have their own module because the endpoint modules import each other: a partly loaded module has no constants.
"""

from __future__ import annotations

from typing import Final

MIN_MAX_FRAME: Final = 512
"""MIN-MAX-FRAME-SIZE: every peer accepts frames of this size. Spec: 2.8.19."""
HANDLE_MAX: Final = 65535
"""The highest link handle that a peer may use in a session. Spec: 2.7.2."""
OUTGOING_WINDOW: Final = 0x7FFFFFFF
"""Our outgoing-window: we do not limit it. Spec: 2.5.6."""
UNLIMITED_LINKS: Final = 0x7FFFFFFF
"""`max_links` of connections that carry the links of many clients."""
