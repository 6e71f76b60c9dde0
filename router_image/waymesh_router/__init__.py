"""The AMQP 1.0 router: forwarding, control plane, management and the runtime that does their I/O."""

from __future__ import annotations

# Imported first: it selects the engine before any hot module of this package is loaded.
import waymesh_amqp as waymesh_amqp
