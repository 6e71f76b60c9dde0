"""`python -m tests.brokers`: get what brokers and the JMS client need into the cache, so that no test waits for it."""

from __future__ import annotations

import sys

from tests.brokers import broker_j, rabbitmq
from tests.kit.built import BuildError, java_libraries


def main() -> int:
    """Exit code 1 with a text when something cannot be had."""
    try:
        for sources in sorted(broker_j.SOURCES.parent.iterdir()):
            java_libraries(sources)
        rabbitmq.unpacked()
    except BuildError as e:
        print(f"brokers: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
