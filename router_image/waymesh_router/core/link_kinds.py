"""Kinds of links, treatments of addresses and rights of peers.

Compiled modules use the same numbers from link_kinds.pxd.
"""

from __future__ import annotations

# Link kinds
ENDPOINT = 0
CONTROL = 1
DATA = 2
ROUTED = 3

# Treatments, as they travel in MAU hints. Source: inter-router.md
FLOOD = 0
MULTICAST = 1
CLOSEST = 2
BALANCED = 3
LINK_BALANCED = 4
UNAVAILABLE = 5

TREATMENTS = {"multicast": MULTICAST, "closest": CLOSEST, "balanced": BALANCED, "unavailable": UNAVAILABLE}
DISTRIBUTIONS = {FLOOD: "flood", LINK_BALANCED: "linkBalanced"}
DISTRIBUTIONS |= {treatment: name for name, treatment in TREATMENTS.items()}

# Rights of a peer: attribute `management` of its listener or connector
UNDECIDED_MANAGEMENT = -1
"""Not set at the listener: determined at the open, no right until then."""
NO_MANAGEMENT = 0
READ_MANAGEMENT = 1
WRITE_MANAGEMENT = 2
MANAGEMENT_RIGHTS = {"none": NO_MANAGEMENT, "read": READ_MANAGEMENT, "write": WRITE_MANAGEMENT}
"""By the values of the attribute."""

DEFAULT_PRIORITY = 4
PRIORITIES = 10

SETTLED_MODE = 1
"""snd-settle-mode of a link whose sender settles all deliveries. Spec: 2.8.2."""

PRESETTLED_WAITING = 4
"""Multiple of the link credit that may wait before pre-settled deliveries are dropped, or copies for one consumer."""

LONG_BYTES = 1 << 17
"""A complete message of at most this size goes to another router on the links for all senders. As many bytes of an
incomplete one are gathered before it begins, because it is probably complete then."""
