"""A router that runs until it is stopped.

It imports little, and some modules only when they are needed: a router listens within half a second of its start.
"""

from __future__ import annotations

import atexit
import gc
import os
import random
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from waymesh_amqp.tables import shrink_all
from waymesh_router.core.memory_levels import NORMAL
from waymesh_router.events.event import Event
from waymesh_router.memory.watermark import default_limit
from waymesh_router.router import Router
from waymesh_router.runtime.daemon import Daemon, PidFile, prepare_descriptors, switch_user
from waymesh_router.runtime.free_pools import FreePools
from waymesh_router.runtime.host import SocketHost
from waymesh_router.runtime.log.log import Log
from waymesh_router.runtime.log.writer import open_output
from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.memory import POLL_S, Trimmer, clear_caches, control_group_limit, memory_limit
from waymesh_router.runtime.options import VERSION, Options
from waymesh_router.runtime.policy.files import PolicyFiles
from waymesh_router.runtime.sasl.users import users_hint
from waymesh_router.runtime.tls.profiles import without_unusable
from waymesh_router.runtime.transport.collisions import without_repeated_addresses
from waymesh_router.runtime.worker_threads import added_threads
from waymesh_schema.config import ConfigEntry, read_config
from waymesh_schema.events import LogEvent
from waymesh_schema.telemetry import ORDERLY_STOP

NO_TEST_HOOKS = "--test-hooks has no effect: there are no test hooks"
WATCH_S = 3.0
"""Interval at which files of certificates and users are checked for changes."""
GC_THRESHOLDS = (5000, 1 << 30, 1 << 30)
"""Objects are freed by reference counting, including those of ended connections (verified by a test). A collection of
the youngest generation examines 5,000 objects, in about 0.1 ms; collections of 500 took 6 % of the CPU time while many
deliveries waited. One of older generations would stop a router with many thousands of links for tens of milliseconds,
so the thresholds keep clients from causing one."""
COLLECT_S = 3600.0
"""Interval of full collections, in case there are unknown reference cycles."""
RINGS_PART = 16
"""Connections that are with threads may have this part of the memory for data on its way: each has 768 KiB."""
SWITCH_INTERVAL_S = 0.0002
"""Time for which the loop waits for the interpreter's lock before the thread that has it must release it. While 500
passwords were checked, round trips of other clients took 7 ms in the 99th percentile with Python's default of 5 ms;
they take 4 ms with this one."""


def run(options: Options) -> int:
    """Run a router until it is stopped; returns the exit code. Raises ConfigError, SchemaError, ManagementError or
    OSError if it cannot start."""
    entries = read_config(*options.files)
    pidfile = PidFile(options.pidfile)
    daemon = Daemon() if options.daemon else None
    prepare_descriptors()
    running = Running(entries)
    if options.test_hooks:
        running.log.write("SERVER", "warning", NO_TEST_HOOKS)
    running.watch_signals()  # before it listens: another process may send a signal as soon as it does
    running.start()
    pidfile.write()
    if options.user:
        try:
            switch_user(options.user)
        except OSError:
            pidfile.remove()
            raise
    if daemon is not None:
        daemon.ready()
    _settle_memory()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    running.loop.run(running.host.turn)
    running.end_threads()
    running.router.end_telemetry()
    running.host.end_telemetry()
    running.log.write("ROUTER", "info", "stopped")
    running.log.close()
    pidfile.remove()
    return 0


class Running:
    """A router on its loop, which listens after `start`."""

    def __init__(self, entries: Sequence[ConfigEntry]) -> None:
        """Raises SchemaError, ManagementError or OSError; the process must end then."""
        self.log = Log(lambda: datetime.now(UTC), open_output, datetime.astimezone)
        atexit.register(self.log.close)  # also after an error at the start
        self.loop = Loop()
        self._router_attrs = next(entry.attributes for entry in entries if entry.type.name == "router")
        self.log.keep(self._router_attrs["logBufferLines"])
        self.log.set_time(self._router_attrs["timestampsInUTC"], self._router_attrs["timestampFormat"])
        rng = random.SystemRandom()  # temporary addresses must not be predictable
        self.host = SocketHost(self.loop, self.log, rng.random)
        now = self.loop.now()  # seconds since the epoch: peers recognize a restart by the boot time
        entries, repeated = without_repeated_addresses(entries)
        entries, unusable = without_unusable(entries)
        self.router = Router(entries, self.host, now, rng, VERSION, int(now))
        self.router.admission.available = memory_limit()
        self.router.admission.default = default_limit(control_group_limit())
        self.router.admission.configure(self.router.attrs)
        self.host.users.configure(self._router_attrs)
        self.host.attach(self.router)
        self.policy_files = PolicyFiles(self.loop, self.log, self.router, entries)
        self._unusable = [*repeated, *unusable]
        self._stopping = False
        core = self.router.core
        self._trimmer = Trimmer(free=self._free)
        self._pools = FreePools(core.context.portions, self.host.memory_usage)
        self.host.free_memory = self._pools.free

    def start(self) -> None:
        """Create the configured entities and listen. Raises ManagementError or OSError; the process must end then."""
        self.host.hold_listeners()
        self.router.start(self.host.open_listeners)
        for text in self._unusable:
            self.log.write("SERVER", "error", text)
        self._add_threads(self._router_attrs["workerThreads"])
        hint = users_hint(self._router_attrs)
        if hint:
            self.log.write("SERVER", "warning", hint)
        self.loop.call_later(WATCH_S, self._watch)
        self._look_at_memory()
        self.loop.call_later(COLLECT_S, self._collect)

    def _add_threads(self, wanted: int) -> None:
        """Start the threads that do TLS: one less than `wanted`, as the loop's is the first."""
        self.host.threads, reason = added_threads(self.loop, wanted, memory_limit() // RINGS_PART)
        if reason:
            self.log.write("SERVER", "warning", f"router workerThreads: {wanted}: {reason}")

    def watch_signals(self) -> None:
        """SIGTERM and SIGINT stop the router gracefully, a second one at once; SIGHUP reloads TLS, user and policy
        files, and reopens log files."""
        signal.set_wakeup_fd(self.loop.wakeup_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, lambda number, frame: self.loop.call_from_thread(self._reload))

    def end_threads(self) -> None:
        """End the threads that do TLS, while everything that they use exists."""
        if self.host.threads is not None:
            self.host.threads.stop()

    def _on_stop(self, number: int, frame: object) -> None:
        """May be interrupted at once by itself, for the other signal."""
        if self._stopping:
            os._exit(128 + number)
        self._stopping = True
        self.loop.call_from_thread(lambda: self._stop(signal.Signals(number).name))

    def _stop(self, why: str) -> None:
        self.log.write("ROUTER", "notice", f"stopping on {why}", Event(LogEvent.ROUTER_STOPPING))
        self.router.ending()
        self.host.stop(ORDERLY_STOP)

    def _reload(self) -> None:
        self.log.reopen()
        self.log.write("ROUTER", "notice", "SIGHUP: reloading TLS, user and policy files")
        self.host.reload()
        self.policy_files.reload()

    def _watch(self) -> None:
        """Apply changes of files: in a pod, no process sends SIGHUP after a change."""
        self.loop.call_later(WATCH_S, self._watch)  # first: the watch continues even if this check fails
        self.host.poll()
        self.host.tokens.poll()
        self.policy_files.poll()
        self.log.poll()

    def _collect(self) -> None:
        gc.collect()
        self.loop.call_later(COLLECT_S, self._collect)

    def _free(self) -> None:
        """Give up what is kept for links and connections that have ended."""
        core = self.router.core
        shrink_all(core.links, core.addresses, core.connections)
        clear_caches()

    def _look_at_memory(self) -> None:
        budget = self.router.core.budget
        self._trimmer.poll(budget.kept, budget.peak)
        budget.peak = budget.kept
        links, connections = self.router.core.link_registry, self.router.core.connection_table
        ended = links.next_id - len(links.by_id), connections.next_id - len(connections.by_id)
        left = len(connections.by_id)
        if self._trimmer.ended(*ended, self.host.memory_usage, left) or self.router.admission.level != NORMAL:
            self._pools.begin()
        self.loop.call_later(POLL_S, self._look_at_memory)


def _settle_memory() -> None:
    """Exclude the existing objects, which are permanent, from collection, so that their pages are not written."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
