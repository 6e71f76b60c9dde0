"""Fixtures: one broker of each kind for a session, and its log in the report of a failed test.

Queues and addresses of a test have names of its own: `fresh("orders")`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.brokers.artemis import Artemis
from tests.brokers.broker_j import BrokerJ
from tests.brokers.broker_j_config import Identity
from tests.brokers.process import BrokerProcess
from tests.brokers.rabbitmq import RabbitMQ
from tests.kit.certificates import Authority

_numbers = itertools.count(1)


def fresh(prefix: str) -> str:
    """A name that nothing else has, on any broker of this session."""
    return f"{prefix}.{os.getpid()}.{next(_numbers)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of the test's brokers to the report of its failure."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, BrokerProcess):
                report.sections.append((f"log of broker {name}", value.log[-6000:]))
    return report


@pytest.fixture(scope="session")
def broker_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of the brokers and of those whom they trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def brokerj(tmp_path_factory: pytest.TempPathFactory, broker_authority: Authority) -> Iterator[BrokerJ]:
    """A Broker-J that keeps nothing on disk. No test may stop it."""
    with _broker_j(tmp_path_factory.mktemp("brokerj"), broker_authority, durable=False) as broker:
        yield broker


@pytest.fixture(scope="session")
def _brokerj_durable(tmp_path_factory: pytest.TempPathFactory, broker_authority: Authority) -> Iterator[BrokerJ]:
    with _broker_j(tmp_path_factory.mktemp("brokerj-durable"), broker_authority, durable=True) as broker:
        yield broker


@pytest.fixture
def brokerj_durable(_brokerj_durable: BrokerJ) -> BrokerJ:
    """A Broker-J on a durable store, running. A test may stop, kill and start it."""
    if not _brokerj_durable.alive():
        _brokerj_durable.kill()
        _brokerj_durable.start()
    return _brokerj_durable


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    """An Artemis. No test may stop it."""
    with Artemis(tmp_path_factory.mktemp("artemis")) as broker:
        yield broker


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A RabbitMQ. No test may stop it."""
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq")) as broker:
        yield broker


def _broker_j(folder: Path, authority: Authority, durable: bool) -> BrokerJ:
    server = authority.issue(f"{folder.name}-server", {"CN": "localhost"}, ("localhost",), algorithm="RSA")
    return BrokerJ(folder, durable=durable, identity=Identity(server, str(authority.cert)))
