"""What is: router pods, and what the routers in them tell."""

from __future__ import annotations

from .pods import PodView, pod_view
from .routers import LiveRouter, Outcome, Reading
from .trouble import event_trouble

__all__ = ["LiveRouter", "Outcome", "PodView", "Reading", "event_trouble", "pod_view"]
