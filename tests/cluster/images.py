"""The images of the tests: made in seconds, cached by what they are made of, put together from cached layers."""

from __future__ import annotations

import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.brokers.broker_j import SOURCES as BROKER_SOURCES
from tests.cluster import rootfs, spark
from tests.cluster.command import run
from tests.cluster.components import PAUSE_IMAGE
from tests.cluster.oci import Settings, write_image, write_layer
from tests.cluster.paths import HERE, REPO, cache, digest, locked, say
from tests.cluster.system import program
from tests.kit.built import java_libraries

VERSION = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["version"]
REGISTRY = "docker.io/library/"
"""What nodes put before the names that the chart and the examples have: waymesh-router:VERSION …"""
ROUTER = f"{REGISTRY}waymesh-router:{VERSION}"
OPERATOR = f"{REGISTRY}waymesh-operator:{VERSION}"
ANALYTICS = f"{REGISTRY}waymesh-analytics:{VERSION}"
BROKER = f"{REGISTRY}broker-j:10.1.0"
KEPT = 2
"""Archives of one image that stay in the cache, the newest."""

OWN_SOURCES = ("router_image", "operator", "spark", "crds", "examples")
USER = f"{rootfs.USER_ID}:{rootfs.USER_ID}"
PYTHON_ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """One of our images: its name in the cluster, the extras it needs, what it runs, whether that needs Java, and which
    of the project's scripts it has: those whose imports are there."""

    name: str
    extras: tuple[str, ...]
    command: tuple[str, ...]
    java: bool = False
    scripts: tuple[str, ...] = ()


RECIPES = {
    "router": Recipe(
        ROUTER,
        ("router", "oauth", "client", "upload"),
        ("waymesh-router",),
        scripts=("waymesh-router", "waymesh-upload"),
    ),
    "analytics": Recipe(ANALYTICS, ("analytics",), ("python", "-m", "waymesh_analytics"), java=True),
    "operator": Recipe(
        OPERATOR,
        ("operator",),
        ("python", "-m", "waymesh_operator", "run"),
        scripts=("kubectl-waymesh", "waymesh", "waymesh-router"),
    ),
}


def pause() -> Path:
    """The archive of the image that holds each pod's namespaces."""
    source = HERE / "pause.c"
    archive = _folder() / f"pause-{digest([source.read_bytes()])}.tar"
    with locked("images"):
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as room:
                root = Path(room, "root")
                root.mkdir()
                run(program("cc"), "-O2", "-static", "-s", "-o", root / "pause", source)
                layer = Path(room, "layer.tar")
                write_layer(root, layer)
                write_image(archive, PAUSE_IMAGE, [layer], Settings(("/pause",)))
    return archive


def broker() -> Path:
    """The archive of the image that examples/broker/Dockerfile describes, from what the tests of brokers have."""
    jars = java_libraries(BROKER_SOURCES)
    with locked("images"):
        layers = [
            _layer("python", digest(_interpreter_inputs()), rootfs.interpreter),  # its shell, users and libraries
            _layer("java", digest(_java_inputs()), spark.java),
            _layer("broker", jars.name, lambda root: _copy(jars, root / "opt/broker-j")),
        ]
        archive = _folder() / f"broker-{digest(layer.name.encode() for layer in layers)}.tar"
        if not archive.exists():
            write_image(archive, BROKER, layers, Settings(("java",), USER, {}))
            _prune("broker-*.tar")
    return archive


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)


def build(*wanted: str) -> list[Path]:
    """The archives of our images, those of a mesh when none is named, made where something changed."""
    return [_build(name, RECIPES[name]) for name in wanted or ("router", "operator")]


def _build(name: str, recipe: Recipe) -> Path:
    with locked("images"):
        own = digest(_own_inputs())
        base = _layer("python", digest(_interpreter_inputs()), rootfs.interpreter)
        scripts = " ".join(recipe.scripts).encode()
        needed = digest([_code(), scripts, *_distribution_inputs(recipe.extras)])
        libraries = _layer(f"{name}-packages", needed, lambda root: _packages(root, recipe))
        code = _layer("waymesh", own, lambda root: _project(root, _note(own)))
        compiled = _note(own).exists()
        environment = PYTHON_ENVIRONMENT | ({"WAYMESH_ENGINE": "compiled"} if compiled else {})
        if recipe.java:
            environment |= {"WAYMESH_SPARK_ARCHIVE": ""}  # nobody has made one, and no pod shall for itself
        settings = Settings(recipe.command, USER, environment)
        layers = [base, *([_layer("java", digest(_java_inputs()), spark.java)] if recipe.java else []), libraries, code]
        parts = [*(layer.name for layer in layers), repr(settings), recipe.name]
        archive = _folder() / f"{name}-{digest(part.encode() for part in parts)}.tar"
        if not archive.exists():
            write_image(archive, recipe.name, layers, settings)
            say(f"image {recipe.name}, engine {'compiled' if compiled else 'interpreted'}")
            _prune(f"{name}-*.tar")
    return archive


def _packages(root: Path, recipe: Recipe) -> None:
    rootfs.packages(root, recipe.extras, spark.is_left_out)
    rootfs.write_scripts(root, recipe.scripts)


def _note(own: str) -> Path:
    """Beside the layer of our own code: it exists when the engine in the layer is the compiled one."""
    return _layers() / f"waymesh-{own}.compiled"


def _project(root: Path, note: Path) -> None:
    if rootfs.project(root):
        note.touch()
    else:
        note.unlink(missing_ok=True)
        say("the engine is not compiled or stale (see `make engine`): the images run it interpreted")


def _layer(name: str, key: str, fill: Callable[[Path], None]) -> Path:
    """The cached layer of that key, filled first when there is none."""
    target = _layers() / f"{name}-{key}.tar"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache()) as room:
            root = Path(room, "root")
            fill(root)
            write_layer(root, target)
        _prune(f"layers/{name}-*.tar")
    return target


def _folder() -> Path:
    folder = cache() / "images"
    folder.mkdir(exist_ok=True)
    return folder


def _layers() -> Path:
    folder = _folder() / "layers"
    folder.mkdir(exist_ok=True)
    return folder


def _prune(pattern: str) -> None:
    files = sorted(_folder().glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in files[KEPT:]:
        old.unlink()


def _code() -> bytes:
    """How images are made belongs to what they are made of."""
    return b"".join(path.read_bytes() for path in (HERE / "rootfs.py", HERE / "oci.py", spark.SLIM))


def _interpreter_inputs() -> Iterator[bytes]:
    yield _code()
    yield sys.version.encode()
    yield program("busybox").read_bytes()


def _java_inputs() -> Iterator[bytes]:
    yield _code()
    yield (HERE / "spark.py").read_bytes()
    yield run(program("java"), "--version").encode()


def _distribution_inputs(extras: tuple[str, ...]) -> Iterator[bytes]:
    for distribution in rootfs.distributions(extras):
        yield f"{distribution.name}=={distribution.version}".encode()


def _own_inputs() -> Iterator[bytes]:
    """Everything that `rootfs.project` reads: sources, compiled twins, metadata."""
    yield _code()
    yield (REPO / "pyproject.toml").read_bytes()
    for folder in OWN_SOURCES:
        for path in sorted((REPO / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(REPO)).encode()
                yield path.read_bytes()
