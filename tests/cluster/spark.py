"""What the image of the Spark job holds besides the project and its packages: Java, and the shell that starts it."""

from __future__ import annotations

import fnmatch
import os
import shutil
from pathlib import Path

from tests.cluster import rootfs
from tests.cluster.paths import REPO
from tests.cluster.system import program

JAVA_HOME = Path("usr/lib/jvm/java")
JAVA_LEFT_OUT = ("jmods", "legal", "man", "include", "docs", "src.zip", "ct.sym", "*.jsa", "libjvm_*.so")
APPLETS = ("basename", "chmod", "dirname", "groups", "head", "readlink", "rm", "stat", "tr")
"""What Hadoop, and the scripts that start Spark, call."""
SLIM = REPO / "spark" / "left_out.txt"


def java(root: Path) -> None:
    """The Java of this machine, as far as a program without a screen needs it, and bash."""
    home = Path(os.path.realpath(program("java"))).parents[1]
    # Parts of Debian's are links to /etc.
    shutil.copytree(home, root / JAVA_HOME, ignore=shutil.ignore_patterns(*JAVA_LEFT_OUT), symlinks=False)
    binaries = root / "usr/bin"
    binaries.mkdir(parents=True)
    (binaries / "java").symlink_to(f"/{JAVA_HOME}/bin/java")
    shutil.copy(os.path.realpath(program("bash")), binaries / "bash")
    for applet in APPLETS:
        (binaries / applet).symlink_to("busybox")
    libraries = [path for path in (root / JAVA_HOME / "lib").rglob("*.so") if "awt" not in path.name]
    rootfs.shared_libraries(root, [binaries / "bash", root / JAVA_HOME / "bin/java", *libraries])


def is_left_out(path: str) -> bool:
    """Whether the image does without this file of a distribution; `path` is relative to site-packages."""
    package, _, inner = path.partition("/")
    patterns = SLIM.read_text().split()
    return package == "pyspark" and any(
        fnmatch.fnmatchcase(inner, pattern) or fnmatch.fnmatchcase(inner, f"{pattern}/*") for pattern in patterns
    )
