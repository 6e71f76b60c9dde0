"""Adds the compiled engine to a wheel; everything else about the distribution stands in pyproject.toml."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

# Only the commands that compile need Cython's work. An editable install stays interpreted until `make engine`
# compiles in place, so that a hot module that does not compile cannot keep anyone from an environment. A wheel of the
# interpreted engine is for all platforms.
if {"bdist_wheel", "build_ext"} & set(sys.argv) and os.environ.get("WAYMESH_ENGINE") != "interpreted":
    from build_engine import PARALLEL, extensions, wanted_modules

    setup(ext_modules=extensions(wanted_modules()), options={"build_ext": {"parallel": PARALLEL}})
else:
    setup()
