"""Policy in force, what it counted, and the connections that it allowed."""

from __future__ import annotations

from waymesh_router.policy.settings import Policy
from waymesh_router.policy.statistics import OpenConnections, PolicyCounts


class Enforcement:
    """The policy in force, with its counts."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.counts = PolicyCounts()
        self.open = OpenConnections()

    def replace(self, policy: Policy) -> None:
        """Another policy is in force from now on."""
        self.policy = policy
