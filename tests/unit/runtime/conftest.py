"""Shared fixtures: a host with its loop in a thread, an authority and a server certificate of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import waymesh_amqp
from tests.kit.certificates import Authority, KeyPair
from tests.unit.runtime.fakes import Running, running

# Only the compiled engine has threads; what the interpreted one says of them is in test_added_threads.py.
collect_ignore = [] if waymesh_amqp.engine() == "compiled" else ["test_tls_threads.py", "test_tls_thread_records.py"]


@pytest.fixture
def host() -> Iterator[Running]:
    with running() as value:
        yield value


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> KeyPair:
    return authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
