"""What is: router pods, and what the routers in them tell."""

from __future__ import annotations

from .pods import PodView, pod_view
from .routers import LiveRouter, Outcome, Reading

__all__ = ["LiveRouter", "Outcome", "PodView", "Reading", "pod_view"]
