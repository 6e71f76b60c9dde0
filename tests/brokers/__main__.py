"""`python -m tests.brokers`: get what the brokers need into the cache, so that no test has to wait for it."""

from __future__ import annotations

import sys

from tests.brokers import broker_j
from tests.kit.built import BuildError, java_libraries


def main() -> int:
    """Exit code 1 with a text when something cannot be had."""
    try:
        java_libraries(broker_j.SOURCES)
    except BuildError as e:
        print(f"brokers: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
