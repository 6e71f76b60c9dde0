"""Small programs on AMQP libraries, built once into the cache: each holds a sender and a receiver on `orders`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.kit.built import cached, call, java_libraries, need

HERE = Path(__file__).parent
JAVA = HERE / "java_reconnect"


def proton_container() -> list[str]:
    """python-qpid-proton, Container."""
    return [sys.executable, str(HERE / "proton_python" / "container_client.py")]


def proton_blocking() -> list[str]:
    """python-qpid-proton, BlockingConnection."""
    return [sys.executable, str(HERE / "proton_python" / "blocking_client.py")]


def proton_cpp() -> list[str]:
    """qpid-proton-cpp from Debian."""
    need("g++", "g++")
    if not Path("/usr/include/proton/container.hpp").exists():
        need("libqpid-proton-cpp", "libqpid-proton-cpp12-dev")
    sources = HERE / "proton_cpp"
    words = ["g++", str(sources / "client.cpp"), "-lqpid-proton-cpp", "-o"]
    folder = cached(sources, lambda folder: call([*words, str(folder / "client")], folder))
    return [str(folder / "client")]


def rhea() -> list[str]:
    """rhea on Node.js."""
    need("node", "nodejs")
    need("npm", "npm")
    sources = HERE / "rhea_reconnect"

    def build(folder: Path) -> None:
        for name in ("package.json", "package-lock.json", ".npmrc", "client.js"):
            shutil.copy(sources / name, folder / name)
        call(["npm", "ci", "--no-audit", "--no-fund"], folder)

    return ["node", str(cached(sources, build) / "client.js")]


def go_amqp() -> list[str]:
    """go-amqp."""
    need("go", "golang-go")
    sources = HERE / "go_amqp_reconnect"
    folder = cached(sources, lambda folder: call(["go", "build", "-o", str(folder / "client"), "."], sources))
    return [str(folder / "client")]


def fe2o3() -> list[str]:
    """fe2o3-amqp."""
    need("cargo", "cargo")
    sources = HERE / "fe2o3_reconnect"

    def build(folder: Path) -> None:
        shutil.copytree(sources, folder / "source")
        call(["cargo", "build", "--release"], folder / "source")

    return [str(cached(sources, build) / "source" / "target" / "release" / "client")]


def _java(name: str) -> Callable[[], list[str]]:
    def program() -> list[str]:
        return ["java", "-cp", f"{java_libraries(JAVA)}/*", str(JAVA / f"{name}.java")]

    return program


PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "proton-python Container": proton_container,
    "proton-python BlockingConnection": proton_blocking,
    "proton-cpp": proton_cpp,
    "rhea": rhea,
    "go-amqp": go_amqp,
    "fe2o3-amqp": fe2o3,
    "Qpid JMS": _java("JmsClient"),
    "ProtonJ2": _java("ProtonJ2Client"),
    "Vert.x AMQP client": _java("VertxClient"),
}
