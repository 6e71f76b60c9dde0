"""`python -m waymesh_operator`: the same commands as `waymesh`. The operator's image runs `run`."""

from __future__ import annotations

from waymesh_operator.cli.main import main

if __name__ == "__main__":
    main()
