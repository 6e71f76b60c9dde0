"""The job as one file, for those who submit it: what `python -m waymesh_analytics` does."""

from __future__ import annotations

import sys

from waymesh_analytics.cli.main import main

sys.exit(main())
