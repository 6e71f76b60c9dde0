"""`python -m waymesh_analytics`."""

from __future__ import annotations

import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main` has one line to say: no traceback of an import

from waymesh_analytics.cli.main import main  # noqa: E402

sys.exit(main())
