"""Resources as typed values, made from manifests that the CRDs have accepted."""

from __future__ import annotations

from .model import Address, Listener, Ref, Router
from .parse import parse_address, parse_router, ref_of

__all__ = ["Address", "Listener", "Ref", "Router", "parse_address", "parse_router", "ref_of"]
