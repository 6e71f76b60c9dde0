"""Shared by all tests: selects the engine and prints it at the start."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

import waymesh_amqp

# How long an example takes says something about the machine, and what else it does, and nothing about us.
settings.register_profile("waymesh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("waymesh")

pytest_plugins = ["tests.kit.fixtures", "tests.brokers.fixtures", "tests.interop.fixtures"]


def pytest_report_header() -> str:
    """One line for the head of the report."""
    return f"waymesh engine: {waymesh_amqp.engine()}"
