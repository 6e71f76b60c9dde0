"""`python -m waymesh_analytics`."""

from __future__ import annotations

import sys

from waymesh_analytics.cli.main import main

sys.exit(main())
