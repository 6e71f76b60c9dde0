"""Selects the engine: the hot modules compiled by Cython, or the same files interpreted.

The environment variable `WAYMESH_ENGINE` selects it:

- unset: compiled if every hot module has a compiled file that is not older than its source, else interpreted;
- `interpreted`: the `.py` files, even if compiled files exist;
- `compiled`: the compiled files; raises ImportError with the name of a module whose compiled file is missing or stale.

The choice applies to all hot modules together: compiled classes depend on each other's memory layout, so an interpreted
module among compiled ones would not load. `tools/build_engine.py` also reads this file, so it imports nothing from the
packages.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

HOT: Final[tuple[str, ...]] = (
    "waymesh_amqp.wire",
    "waymesh_amqp.reading",
    "waymesh_amqp.buffer",
    "waymesh_amqp.outcome_ranges",
    "waymesh_amqp.time_outs",
    "waymesh_amqp.connection",
    "waymesh_amqp.connection_frames",
    "waymesh_amqp.frame_reader",
    "waymesh_amqp.preamble",
    "waymesh_amqp.session",
    "waymesh_amqp.incoming_flow",
    "waymesh_amqp.flows",
    "waymesh_amqp.dispositions",
    "waymesh_amqp.link_frames",
    "waymesh_amqp.link",
    "waymesh_amqp.delivery",
    "waymesh_amqp.handler",
    "waymesh_amqp.outgoing",
    "waymesh_amqp.transfer",
    "waymesh_router.core.forwarding.annotations",
    "waymesh_router.core.forwarding.sections",
    "waymesh_router.core.forwarding.speed",
    "waymesh_router.core.forwarding.window",
    "waymesh_router.core.forwarding.pace",
    "waymesh_router.core.model",
    "waymesh_router.core.forwarding.pending_queue",
    "waymesh_router.core.forwarding.section_order",
    "waymesh_router.core.counters",
    "waymesh_router.core.forwarding.buffer_budget",
    "waymesh_router.core.settlement.outcomes",
    "waymesh_router.core.delivery_sampling",
    "waymesh_router.core.forwarding.spread",
    "waymesh_router.core.forwarding.pacing",
    "waymesh_router.core.settlement.settlement",
    "waymesh_router.core.forwarding.target_lists",
    "waymesh_router.core.forwarding.priorities",
    "waymesh_router.core.forwarding.choice",
    "waymesh_router.core.forwarding.expiry",
    "waymesh_router.core.forwarding.grouped",
    "waymesh_router.core.forwarding.sending",
    "waymesh_router.core.forwarding.stream_links",
    "waymesh_router.core.forwarding.streams",
    "waymesh_router.core.forwarding.size_limits",
    "waymesh_router.core.forwarding.multicast",
    "waymesh_router.core.forwarding.pending",
    "waymesh_router.core.forwarding.gathering",
    "waymesh_router.core.addresses.table",
    "waymesh_router.core.link_routing.transfers",
    "waymesh_router.core.forwarding.credit",
    "waymesh_router.core.forwarding.outflow",
    "waymesh_router.core.forwarding.message_address",
    "waymesh_router.core.forwarding.own_messages",
    "waymesh_router.core.forwarding.forwarder",
    "waymesh_router.core.settlement.interruptions",
    "waymesh_router.core.settlement.oversized",
    "waymesh_router.core.core",
    "waymesh_router.due_work",
    "waymesh_router.routing.graph",
    "waymesh_router.telemetry.deliveries",
    "waymesh_router.telemetry.lines",
    "waymesh_router.runtime.transport.receive_buffer",
    "waymesh_router.runtime.transport.connection_io",
    "waymesh_router.runtime.tls.sockets",
    "waymesh_router.runtime.transport.tls_connection_io",
    "waymesh_router.runtime.transport.tls_threads",
    "waymesh_router.runtime.turn",
    "waymesh_router.runtime.loop",
)
"""Dotted names of the modules that are compiled. A listed module without a source file is skipped."""

C_FILES: Final[dict[str, tuple[str, ...]]] = {
    "waymesh_router.runtime.transport.tls_threads": (
        "tls_openssl.c",
        "tls_records.c",
        "tls_thread.c",
        "tls_thread.h",
        "tls_parts.h",
    ),
}
"""Files in C that are compiled into a module, beside its source."""

ROOT: Final = Path(__file__).resolve().parent.parent
"""The folder of the packages: `router_image/` in a checkout, or site-packages."""

VARIABLE: Final = "WAYMESH_ENGINE"
COMPILED: Final = "compiled"
INTERPRETED: Final = "interpreted"


def source_of(name: str, root: Path = ROOT) -> Path:
    """The path of a hot module's `.py` file, which may not exist."""
    return root.joinpath(*name.split(".")).with_suffix(".py")


def c_files_of(name: str, root: Path = ROOT) -> list[Path]:
    """The files in C that are compiled into a hot module."""
    return [source_of(name, root).with_name(file) for file in C_FILES.get(name, ())]


def twin_of(name: str, root: Path = ROOT) -> Path | None:
    """The compiled file of a hot module for this interpreter, None if it does not exist."""
    stem = root.joinpath(*name.split("."))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        candidate = stem.with_name(stem.name + suffix)
        if candidate.exists():
            return candidate
    return None


def fault_of(name: str, root: Path = ROOT) -> str | None:
    """The reason why the module cannot run compiled; None if it can, or if it has no source file."""
    source = source_of(name, root)
    if not source.exists():
        return None
    twin = twin_of(name, root)
    if twin is None:
        return f"{name} has no compiled twin beside {source.name}: run `make engine`"
    # In a checkout, the builder touches files that are up to date, so their age is valid; wheels keep no file times.
    if (root.parent / "setup.py").exists():
        parts = (source, source.with_suffix(".pxd"), *c_files_of(name, root))
        newest = max(f.stat().st_mtime for f in parts if f.exists())
        if twin.stat().st_mtime < newest:
            return f"{name} was changed after it was compiled: run `make engine`"
    return None


def choose(environ: Mapping[str, str], hot: Sequence[str] = HOT, root: Path = ROOT) -> str:
    """COMPILED or INTERPRETED, depending on the environment and on the compiled files.

    Raises ImportError for an unknown value, and if the compiled engine is requested but incomplete.
    """
    wish = environ.get(VARIABLE, "")
    if wish == INTERPRETED:
        return INTERPRETED
    if wish not in ("", COMPILED):
        raise ImportError(f"{VARIABLE}={wish}: neither {COMPILED} nor {INTERPRETED}")
    faults = [fault for fault in (fault_of(name, root) for name in hot) if fault]
    if wish == COMPILED and faults:
        raise ImportError(f"{VARIABLE}={COMPILED}: " + "; ".join(faults))
    present = any(source_of(name, root).exists() for name in hot)
    return COMPILED if present and not faults else INTERPRETED


class SourceFinder:
    """Meta-path finder that loads hot modules from their `.py` files and ignores compiled files."""

    def __init__(self, hot: Sequence[str]) -> None:
        self._hot = frozenset(hot)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a hot module's source; None for every other module."""
        if name not in self._hot or path is None:
            return None
        for folder in path:
            source = Path(folder, name.rpartition(".")[2] + ".py")
            if source.exists():
                return importlib.util.spec_from_file_location(name, source)
        return None


def install(environ: Mapping[str, str] = os.environ) -> str:
    """Selects the engine for this process; must run before the first import of a hot module."""
    choice = choose(environ)
    if choice == INTERPRETED:
        sys.meta_path.insert(0, SourceFinder(HOT))
    _provide_cython()
    return choice


def _provide_cython() -> None:
    """Install the stub for `cython`: hot modules import its decorators and types; only compilation needs Cython."""
    if importlib.util.find_spec("cython") is None:
        from waymesh_amqp import _cython_stub

        sys.modules["cython"] = _cython_stub
