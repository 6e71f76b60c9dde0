"""The AMQP 1.0 router: forwarding, control plane, management and the runtime that does their I/O."""

from __future__ import annotations

# Imported first, so that the choice of engine is in force before any hot module of this package loads.
import waymesh_amqp as waymesh_amqp
