"""Shared by all tests: selects the engine and prints it at the start."""

from __future__ import annotations

import gc
import signal

import pytest
from hypothesis import HealthCheck, settings

import waymesh_amqp
from tests.kit import tls_contexts

# How long an example takes says something about the machine, and what else it does, and nothing about us.
settings.register_profile("waymesh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("waymesh")

pytest_plugins = ["tests.kit.fixtures", "tests.kit.selection", "tests.brokers.fixtures", "tests.interop.fixtures"]


def pytest_configure() -> None:
    """Collecting tests makes a million objects that live to the end: half of the time would go to the garbage
    collector, which looks for garbage among them."""
    gc.disable()
    tls_contexts.share()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """From here on, the collector does not look at the objects of the tests themselves."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist that takes over five seconds to end, all tests done, gets a SIGINT from its own thread
    (execnet): the KeyboardInterrupt would only be printed as an exception of whatever runs then, the collector say."""
    if hasattr(session.config, "workerinput"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def pytest_report_header() -> str:
    """One line for the head of the report."""
    return f"waymesh engine: {waymesh_amqp.engine()}"
