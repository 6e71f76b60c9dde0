"""Carrying out the steps of a plan: objects through the API server, the rest on the routers themselves."""

from __future__ import annotations

from .carry import Result, carry_out
from .objects import ObjectWriter

__all__ = ["ObjectWriter", "Result", "carry_out"]
