"""`waymesh-router`: runs a router from the command line until it is stopped, or performs the action of another option.

Each action imports what it needs: a pod runs `--drain` before it is stopped, perhaps with little CPU time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from waymesh_router.management.errors import ManagementError
from waymesh_router.runtime.options import USAGE, VERSION, UsageError, parse_options
from waymesh_schema.config import ConfigError
from waymesh_schema.errors import SchemaError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a router until it is stopped, or perform the action of another option.

    Returns the exit code: 0, or 1 with the reason on stderr.
    """
    try:
        options = parse_options(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.help or options.version:
        sys.stdout.write(USAGE if options.help else f"{VERSION}\n")
        return 0
    if options.drain:
        from waymesh_router.runtime.commands.drain import drain

        return drain(options.url, options.timeout_s)
    if options.dump:
        from waymesh_router.runtime.commands.dump import dump

        return dump(options.url)
    try:
        if options.check:
            from waymesh_router.runtime.commands.check import check

            return check(options.files, options.strict)
        from waymesh_router.runtime.running import run

        return run(options)
    except ConfigError as error:
        sys.stderr.writelines(f"waymesh-router: {problem}\n" for problem in error.problems)
        if not options.check:
            first = error.problems[0]
            sys.stderr.write(f"Exception: Cannot load configuration file {first.filename}: {first.reason}\n")
    except (SchemaError, ManagementError, OSError) as error:
        sys.stderr.write(f"waymesh-router: {error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
