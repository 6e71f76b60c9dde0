"""What every test run needs: the engine it runs on, named at its top."""

from __future__ import annotations

import waymesh_amqp

pytest_plugins = ["tests.kit.fixtures", "tests.brokers.fixtures", "tests.interop.fixtures"]


def pytest_report_header() -> str:
    """One line for the head of the report."""
    return f"waymesh engine: {waymesh_amqp.engine()}"
