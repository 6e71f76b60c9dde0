"""The router's log: levels and outputs of modules, recent lines, and counters by level."""

from __future__ import annotations

import json
import math
import os
import sys
import syslog
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from waymesh_router.events.event import Event, without_event
from waymesh_router.events.line_limit import WINDOW_S, LineLimit
from waymesh_router.runtime.log.recent import LogLine, RecentLines
from waymesh_router.runtime.log.rotation import KEPT_FILES, RotatingFile, Rotation, RotationError
from waymesh_schema.errors import SchemaError
from waymesh_schema.events import PROVOKED, LogEvent
from waymesh_schema.loglevels import LOG_LEVELS, LOG_MODULES, parse_levels
from waymesh_schema.table_router import STANDARD_OUTPUTS
from waymesh_schema.text import one_line

RING_LINES = 4096
"""Recent lines that are kept by default; see logBufferLines of the router entity."""
MAX_CHARACTERS = 16_384
"""Maximum length of a text; longer ones are truncated."""
LOST_EVERY_S = 60.0
"""Minimum time between two lines about lost lines."""
SERIOUS = frozenset(LOG_LEVELS[LOG_LEVELS.index("warning") :])
_BUILT_IN: Mapping[str, Any] = {
    "enable": "info+",
    "includeTimestamp": True,
    "includeSource": False,
    "format": "text",
    "outputFile": "stderr",
    "maxMegabytes": None,
    "keptFiles": None,
}
_SYSLOG_PRIORITIES = {
    "trace": syslog.LOG_DEBUG,
    "debug": syslog.LOG_DEBUG,
    "info": syslog.LOG_INFO,
    "notice": syslog.LOG_NOTICE,
    "warning": syslog.LOG_WARNING,
    "error": syslog.LOG_ERR,
    "critical": syslog.LOG_CRIT,
}


class Sink(Protocol):
    """An output for lines. `write` takes one line without its newline and may raise OSError."""

    def write(self, level: str, line: str) -> None:
        """Write one line of that level."""

    def close(self) -> None:
        """Release the output; nothing is written afterwards."""


class _StandardSink:
    """stderr or stdout, looked up for each line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def write(self, level: str, line: str) -> None:
        stream = getattr(sys, self._name)
        if stream is not None:  # a daemon may have none
            stream.write(line + "\n")
            stream.flush()

    def close(self) -> None:
        """Does nothing: the stream belongs to the process."""


class _FileSink:
    """A file to which lines are appended."""

    def __init__(self, path: str) -> None:
        self._stream = Path(path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - open until close()

    def write(self, level: str, line: str) -> None:
        self._stream.write(line + "\n")

    def close(self) -> None:
        with suppress(OSError):  # a full disk must not cause a failure at the end
            self._stream.close()


class _SyslogSink:
    """The system log, which adds the time itself."""

    def write(self, level: str, line: str) -> None:
        syslog.syslog(_SYSLOG_PRIORITIES[level], line)

    def close(self) -> None:
        """Does nothing: others may use the connection."""


def open_sink(output: str, rotation: Rotation | None = None) -> Sink:
    """The sink for a value of `outputFile`; raises OSError."""
    if output in ("stderr", "stdout"):
        return _StandardSink(output)
    if output == "syslog":
        return _SyslogSink()
    return _FileSink(output) if rotation is None else RotatingFile(output, rotation)


_Output = tuple[str, Rotation | None]
"""A value of `outputFile`, and when the file is renamed."""
_Opener = Callable[[str, Rotation | None], Sink]


@dataclass(frozen=True, slots=True)
class _Effective:
    """The settings of a module, completed with those of DEFAULT and the built-in ones."""

    levels: frozenset[str]
    timestamp: bool
    source: bool
    json: bool
    output: _Output


class Log:
    """All log modules. `clock` returns the current time with a zone; `opener` creates sinks.

    Every module always has effective settings; a sink is open while at least one module writes to it.
    """

    def __init__(
        self,
        clock: Callable[[], datetime],
        opener: _Opener = open_sink,
        zoned: Callable[[datetime], datetime] = lambda now: now,
    ) -> None:
        """`zoned` converts a time of the clock to the zone in which lines show it: only for lines that are written."""
        self._clock = clock
        self._zoned = zoned
        self._opener = opener
        self._utc = False
        self._time_format: str | None = None
        self._settings: dict[str, dict[str, Any]] = {module: {"enable": "default"} for module in LOG_MODULES}
        self._effective: dict[str, _Effective] = {}
        self._sinks: dict[_Output, Sink] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._recent = RecentLines(RING_LINES)
        self._limit = LineLimit()
        self.lost = 0
        """Number of lines that a sink did not accept."""
        self._lost_why = ""
        self._lost_told = (0, -math.inf)  # `lost` at the last line about it, and when
        self.on_serious: Callable[[str, str, str], None] = _ignore
        """Called with module, level and text of each line whose level is in SERIOUS."""
        self._apply(self._settings)

    def enabled(self, module: str, level: str) -> bool:
        """Whether a line would be written; check this before composing an expensive text."""
        return level in self._effective[module].levels

    def write(
        self,
        module: str,
        level: str,
        text: str,
        event: Event | None = None,
        /,
        depth: int = 1,
        always: bool = False,
    ) -> None:
        """Write a line if it is enabled, or `always`. `depth`: number of calls between the line's source and this
        method. The number of lines that one host can cause is limited; further ones are left out."""
        settings = self._effective[module]
        if level not in settings.levels and not always:
            return
        now = self._clock()
        if event is not None and event.kind in PROVOKED and not self._limit.admits(event.host, now.timestamp()):
            return
        self._counts[module, level] += 1
        file, number = _source(depth)
        whole = text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…"
        text = without_event(one_line(whole))
        entry = LogLine(
            module, level, text if event is None else text + event.suffix, file, number, int(now.timestamp())
        )
        self._recent.append(entry)
        timed = settings.timestamp and settings.output[0] != "syslog"
        stamp = self._stamp(now, settings.json) if timed else ""
        line = _json_line(entry, whole, event, stamp, settings) if settings.json else _line(entry, stamp, settings)
        try:
            self._sinks[settings.output].write(level, line)
        except (OSError, ValueError) as error:  # full disk, closed stream, unencodable character: continue
            self.lost += 1
            self._lost_why = f"{settings.output[0]}: {getattr(error, 'strerror', None) or error}"
        except RotationError as error:
            self.write("ROUTER", "error", str(error), always=True)
        if level in SERIOUS:
            self.on_serious(module, level, text)

    def poll(self) -> None:
        """Log the numbers of lines that were left out or lost. Must be called every few seconds."""
        now = self._clock().timestamp()
        self._log_left_out(self._limit.ended(now))
        told, at = self._lost_told
        if self.lost > told and not 0 <= now - at < LOST_EVERY_S:
            self._lost_told = (self.lost, now)
            # If this line is lost too, GET-LOG and telemetry still have it.
            self.write("ROUTER", "error", f"{self.lost - told} log lines are lost: {self._lost_why}", always=True)

    def _log_left_out(self, left_out: Iterable[tuple[str, int]]) -> None:
        for host, lines in left_out:
            about = f" about {host}" if host else ""
            text = f"{lines} more lines{about} within {WINDOW_S:g} s were left out"
            who = {"host": host} if host else {}
            self.write("SERVER", "warning", text, Event(LogEvent.LOG_LEFT_OUT, who, {"lines": lines}))

    def configure(self, attributes: Mapping[str, Any]) -> None:
        """Apply the attributes of a `log` entity to their `module`; None selects the value of DEFAULT.
        Missing attributes keep their value. Raises SchemaError without any change if the expression of levels is
        invalid or the output cannot be opened.
        """
        module = attributes["module"]
        known = {name: attributes[name] for name in _BUILT_IN if name in attributes}
        self._apply({**self._settings, module: {**self._settings[module], **known}})

    def reopen(self) -> None:
        """Reopen all outputs: a file may have been renamed for rotation. One that cannot be reopened stays open."""
        failed = []
        for output, former in list(self._sinks.items()):
            try:
                self._sinks[output] = self._opener(*output)
            except OSError as error:
                failed.append(f"{output[0]} cannot be opened again and stays open: {error.strerror}")
                continue
            with suppress(OSError):
                former.close()
        for text in failed:
            self.write("ROUTER", "error", text, always=True)

    def keep(self, lines: int) -> None:
        """Set the number of recent lines to keep."""
        self._recent.keep(lines)

    def set_time(self, utc: bool, time_format: str | None) -> None:
        """Write times in UTC or in the clock's zone, in a strftime format or the default one."""
        self._utc = utc
        self._time_format = time_format or None

    def settings(self, module: str) -> dict[str, Any]:
        """The attributes of a module's `log` entity, as set."""
        return {"module": module, **dict.fromkeys(_BUILT_IN), **self._settings[module]}

    def recent(self, limit: int | None = None) -> list[LogLine]:
        """The most recent lines, at most `limit`, oldest first."""
        return self._recent.lines(limit)

    def stats(self, module: str) -> dict[str, int]:
        """The counters of a module's `logStats` entity."""
        return {f"{level}Count": self._counts[module, level] for level in LOG_LEVELS}

    def close(self) -> None:
        """Close all sinks; nothing may be written afterwards."""
        self._log_left_out(self._limit.end())
        for sink in self._sinks.values():
            sink.close()
        self._sinks.clear()

    def _stamp(self, now: datetime, standard: bool) -> str:
        """The time of a line; `standard`: in the form of ISO 8601 by default."""
        now = now.astimezone(UTC) if self._utc else self._zoned(now)
        if self._time_format is not None:
            return now.strftime(self._time_format)
        if standard:
            return now.isoformat("T", "microseconds")
        text = now.isoformat(" ", "microseconds")  # 20 times as fast as strftime("%Y-%m-%d %H:%M:%S.%f %z")
        return f"{text[:26]} {text[26:29]}{text[30:32]}"

    def _apply(self, settings: dict[str, dict[str, Any]]) -> None:
        effective = dict(_resolve(settings))
        outputs = {found.output for found in effective.values()}
        _refuse_conflicts(outputs)
        opened: dict[_Output, Sink] = {}
        try:
            for output in sorted(outputs - self._sinks.keys(), key=str):
                opened[output] = self._opener(*output)
        except OSError as error:
            for sink in opened.values():
                sink.close()
            raise SchemaError("log", "outputFile", f"{output[0]} cannot be opened: {error.strerror}") from None
        for output in self._sinks.keys() - outputs:
            self._sinks.pop(output).close()
        self._sinks.update(opened)
        self._settings, self._effective = settings, effective


def _ignore(module: str, level: str, text: str) -> None:
    """Default of `on_serious`."""


def _rotation(settings: Mapping[str, Any]) -> Rotation | None:
    """The rotation of the outputFile in these attributes of one entity."""
    megabytes = settings.get("maxMegabytes")
    return None if megabytes is None else Rotation(megabytes * 1_000_000, settings.get("keptFiles") or KEPT_FILES)


def _refuse_conflicts(outputs: Iterable[_Output]) -> None:
    """Raise SchemaError if two outputs would rename the same file, or one would rename a file that another writes to.
    """
    files: dict[str, _Output] = {}
    for output in outputs:
        if output[0] in STANDARD_OUTPUTS:
            continue
        other = files.setdefault(os.path.realpath(output[0]), output)
        if other != output and (other[1] is not None or output[1] is not None):
            reason = f"all log entities of {output[0]} must give it the same name, maxMegabytes and keptFiles"
            raise SchemaError("log", "maxMegabytes", reason)


def _resolve(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, _Effective]]:
    default = settings["DEFAULT"]
    for module, own in settings.items():

        def value(name: str, own: Mapping[str, Any] = own) -> Any:
            return next((s[name] for s in (own, default, _BUILT_IN) if s.get(name) is not None), None)

        levels = _levels(own)
        if levels is None:
            levels = _levels(default)
        if levels is None:
            levels = _levels(_BUILT_IN) or frozenset()
        named = next((s for s in (own, default) if s.get("outputFile") is not None), _BUILT_IN)
        yield (
            module,
            _Effective(
                levels,
                value("includeTimestamp"),
                value("includeSource"),
                value("format") == "json",
                (named["outputFile"], _rotation(named)),
            ),
        )


def _line(entry: LogLine, stamp: str, settings: _Effective) -> str:
    line = f"{entry.module} ({entry.level}) {entry.text}"
    if stamp:
        line = f"{stamp} {line}"
    return f"{line} ({entry.file}:{entry.line})" if settings.source else line


def _json_line(entry: LogLine, text: str, event: Event | None, stamp: str, settings: _Effective) -> str:
    """One JSON object in ASCII; `text` keeps its line breaks, which JSON escapes."""
    parts: dict[str, Any] = {"time": stamp} if stamp else {}
    parts |= {"module": entry.module, "level": entry.level, "text": text}
    if event is not None:
        parts |= event.fields
    if settings.source:
        parts |= {"file": entry.file, "line": entry.line}
    return json.dumps(parts)


def _levels(settings: Mapping[str, Any]) -> frozenset[str] | None:
    try:
        return parse_levels(settings.get("enable") or "default")
    except ValueError as error:
        raise SchemaError("log", "enable", str(error)) from None


def _source(depth: int) -> tuple[str, int]:
    frame: FrameType = sys._getframe(depth + 1)
    return frame.f_code.co_filename.rpartition("/")[2], frame.f_lineno
