"""Running a command of an image with nothing but the packages that the image holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cluster.images import RECIPES
from tests.cluster.paths import REPO
from tests.cluster.rootfs import distributions

HELP = """
import runpy, sys
sys.path[:0] = sys.argv[1:4] + [sys.argv[4]]
module, function = sys.argv[5:7]
sys.argv = [module, "--help"]
if function:
    sys.exit(getattr(__import__(module, fromlist=[function]), function)())
runpy.run_module(module, run_name="__main__")
"""


def check_help(folder: Path, image: str, module: str, function: str = "") -> None:
    """`--help` of a function of a module, or of the module itself, ends well. `folder` is an empty one.

    Without an image there are no packages but the standard library.
    """
    sources = [str(REPO / name) for name in ("router_image", "operator", "spark")]
    words = [sys.executable, "-I", "-S", "-c", HELP, *sources, str(_packages(folder, image)), module, function]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


def _packages(folder: Path, image: str) -> Path:
    """A folder with the distributions of an image and no other."""
    for distribution in distributions(RECIPES[image].extras if image else ()):
        for top in {file.parts[0] for file in distribution.files or () if ".." not in file.parts}:
            link = folder / top
            if not link.exists() and top != "__pycache__":
                link.symlink_to(Path(str(distribution.locate_file(top))).resolve())
    return folder
