"""`python -m tests.interop_brokers.moves [TRIES]`: a durable subscription that moves at once to another router.

Both routers are beside one Broker-J, which takes them for one container. A try is one move of the JMS
check `durable_subscription_moves`, which ends with the first that fails. Prints what went wrong, and how many did.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.brokers.broker_j import BrokerJ
from tests.brokers.fixtures import fresh
from tests.interop_brokers import jms_checks
from tests.interop_brokers.test_qpid_jms import listener_for_jms, two_beside

CHECK = "durable_subscription_moves"
MOVES = 10
"""Tries that one check makes."""
BATCH = 5
"""Checks of one JVM."""


def main() -> int:
    """Exit code 1 where a try failed."""
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    failed = done = 0
    with tempfile.TemporaryDirectory() as folder, BrokerJ(_made(folder, "broker"), durable=True) as broker:
        scene = two_beside(_made(folder, "routers"), broker)
        urls = [listener_for_jms(router) for router in scene.routers]
        while done < tries:
            done += BATCH * MOVES
            for _, verdict in jms_checks.run_each(*urls, fresh("jms"), *[CHECK] * BATCH):
                if not verdict.ok:
                    failed += 1
                    print(verdict.wrong)
            print(f"{failed} of {done} tries failed", flush=True)
        scene.stop()
    return 1 if failed else 0


def _made(folder: str, name: str) -> Path:
    path = Path(folder, name)
    path.mkdir()
    return path


if __name__ == "__main__":
    sys.exit(main())
