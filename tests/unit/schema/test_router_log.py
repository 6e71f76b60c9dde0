"""Log modules: levels, outputs, formats, recent lines and counters."""

from __future__ import annotations

import io
import json
import re
import sys
import syslog
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from waymesh_router.runtime.log.log import RING_LINES, Log, Sink, open_sink
from waymesh_router.runtime.log.rotation import Rotation
from waymesh_schema.errors import SchemaError
from waymesh_schema.loglevels import LOG_LEVELS, LOG_MODULES, parse_levels

pytestmark = pytest.mark.engine_independent

NOON = datetime(2025, 3, 4, 12, 30, 15, 678, timezone(timedelta(hours=2)))


class Sinks:
    """Sinks in memory; an output named in `broken` cannot be opened, one in `full` not written to."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        self.open: set[str] = set()
        self.broken: set[str] = set()
        self.full: dict[str, Exception] = {}

    def opener(self, output: str, rotation: Rotation | None) -> Sink:
        if output in self.broken:
            raise PermissionError(13, "Permission denied")
        self.open.add(output)
        self.lines.setdefault(output, [])
        sinks = self

        class One:
            def write(self, level: str, line: str) -> None:
                if output in sinks.full:
                    raise sinks.full[output]
                sinks.lines[output].append(line)

            def close(self) -> None:
                sinks.open.remove(output)

        return One()


@pytest.fixture
def sinks() -> Sinks:
    return Sinks()


@pytest.fixture
def log(sinks: Sinks) -> Log:
    return Log(lambda: NOON, sinks.opener)


def levels_of(log: Log, module: str) -> list[str]:
    return [level for level in LOG_LEVELS if log.enabled(module, level)]


@pytest.mark.parametrize(
    ("expression", "levels"),
    [
        ("none", []),
        ("info", ["info"]),
        ("info,error", ["info", "error"]),
        ("warning+", ["warning", "error", "critical"]),
        ("trace,debug,warning+", ["trace", "debug", "warning", "error", "critical"]),
        ("trace+", list(LOG_LEVELS)),
        (" Debug+ , TRACE ", list(LOG_LEVELS)),
        ("critical+", ["critical"]),
    ],
)
def test_level_expressions(log: Log, expression: str, levels: list[str]) -> None:
    log.configure({"module": "ROUTER", "enable": expression})
    assert levels_of(log, "ROUTER") == levels
    assert levels_of(log, "SERVER") == ["info", "notice", "warning", "error", "critical"], "other modules as before"


@pytest.mark.parametrize("expression", ["", "+", "info+,", "loud", "info error", "none,info", "default,info", "info++"])
def test_wrong_expressions_change_nothing(log: Log, expression: str) -> None:
    with pytest.raises(ValueError, match="is not a log level"):
        parse_levels(expression)
    if expression:
        with pytest.raises(SchemaError, match="log enable: "):
            log.configure({"module": "ROUTER", "enable": expression})
    assert levels_of(log, "ROUTER")[0] == "info"


def test_modules_follow_the_default_one_until_they_say_something(log: Log) -> None:
    log.configure({"module": "SERVER", "enable": "error"})
    log.configure({"module": "DEFAULT", "enable": "debug", "includeTimestamp": False})
    assert levels_of(log, "ROUTER") == ["debug"]
    assert levels_of(log, "SERVER") == ["error"]
    log.configure({"module": "SERVER", "enable": "default"})
    assert levels_of(log, "SERVER") == ["debug"]
    log.configure({"module": "DEFAULT", "enable": "default"})
    assert levels_of(log, "ROUTER")[0] == "info"


def test_form_of_a_line(log: Log, sinks: Sinks) -> None:
    log.write("SERVER", "notice", "Listening on port 5672")
    assert sinks.lines["stderr"] == ["2025-03-04 12:30:15.000678 +0200 SERVER (notice) Listening on port 5672"]


@pytest.mark.parametrize(
    ("attributes", "form"),
    [
        ({"includeTimestamp": False}, r"SERVER \(notice\) text"),
        ({"includeSource": True, "includeTimestamp": False}, r"SERVER \(notice\) text \(test_router_log\.py:\d+\)"),
        ({"includeSource": True}, r"2025-.* SERVER \(notice\) text \(test_router_log\.py:\d+\)"),
    ],
)
def test_parts_of_a_line_are_optional(log: Log, sinks: Sinks, attributes: dict[str, Any], form: str) -> None:
    log.configure({"module": "SERVER", **attributes})
    log.write("SERVER", "notice", "text")
    assert re.fullmatch(form, sinks.lines["stderr"][0])


def test_lines_in_json(log: Log, sinks: Sinks) -> None:
    log.configure({"module": "DEFAULT", "format": "json"})
    log.configure({"module": "AGENT", "format": "text", "includeTimestamp": False})
    log.configure({"module": "SERVER", "includeSource": True, "includeTimestamp": False})
    log.write("ROUTER", "notice", "two\nlines \u00fc \udc80")
    log.write("SERVER", "info", 'a "quoted" text')
    log.write("AGENT", "info", "text")
    plain, with_source, text = sinks.lines["stderr"]
    assert json.loads(plain) == {
        "time": "2025-03-04T12:30:15.000678+02:00",
        "module": "ROUTER",
        "level": "notice",
        "text": "two\nlines \u00fc \udc80",
    }
    assert plain.isascii()
    source = json.loads(with_source)
    assert source.pop("line") > 0
    assert source == {"module": "SERVER", "level": "info", "text": 'a "quoted" text', "file": "test_router_log.py"}
    assert text == "AGENT (info) text"


def test_json_lines_take_the_time_format_of_the_router(log: Log, sinks: Sinks) -> None:
    log.set_time(utc=True, time_format="%H:%M")
    log.configure({"module": "DEFAULT", "format": "json"})
    log.write("ROUTER", "notice", "text")
    assert json.loads(sinks.lines["stderr"][0])["time"] == "10:30"


def test_the_source_may_be_further_up(log: Log) -> None:
    def through() -> None:
        log.write("SERVER", "info", "text", depth=2)

    log.configure({"module": "SERVER", "includeSource": True})
    through()
    log.write("SERVER", "info", "text")
    first, second = log.recent()
    assert first.line is not None
    assert second.line == first.line + 1


def test_times_in_utc_and_in_another_format(log: Log, sinks: Sinks) -> None:
    log.set_time(utc=True, time_format=None)
    log.write("SERVER", "info", "text")
    log.set_time(utc=False, time_format="%H:%M")
    log.write("SERVER", "info", "text")
    assert sinks.lines["stderr"] == [
        "2025-03-04 10:30:15.000678 +0000 SERVER (info) text",
        "12:30 SERVER (info) text",
    ]


def test_a_line_that_is_not_enabled_leaves_no_trace(log: Log, sinks: Sinks) -> None:
    log.write("SERVER", "debug", "text")
    assert sinks.lines["stderr"] == []
    assert log.recent() == []
    assert log.stats("SERVER")["debugCount"] == 0


def test_an_event_is_one_line_whatever_it_holds(log: Log, sinks: Sinks) -> None:
    log.write("SERVER", "info", "name é\r\n2025-03-04 SERVER (error) forged\x1b[31m\u2028\udc80\t")
    (line,) = sinks.lines["stderr"]
    assert line.endswith("name é\\r\\n2025-03-04 SERVER (error) forged\\x1b[31m\\u2028\\udc80\\t")
    line.encode()


def test_outputs_are_shared_and_closed_when_nobody_needs_them(log: Log, sinks: Sinks) -> None:
    log.configure({"module": "SERVER", "outputFile": "a.log"})
    log.configure({"module": "ROUTER", "outputFile": "a.log"})
    log.write("SERVER", "info", "one")
    log.write("ROUTER", "info", "two")
    assert [line[-3:] for line in sinks.lines["a.log"]] == ["one", "two"]
    assert sinks.open == {"stderr", "a.log"}
    log.configure({"module": "SERVER", "outputFile": None})
    assert sinks.open == {"stderr", "a.log"}
    log.configure({"module": "ROUTER", "outputFile": None})
    assert sinks.open == {"stderr"}
    log.configure({"module": "DEFAULT", "outputFile": "stdout"})
    assert sinks.open == {"stdout"}
    log.close()
    assert sinks.open == set()


def test_an_output_that_cannot_be_opened_changes_nothing(log: Log, sinks: Sinks) -> None:
    sinks.broken.add("/no.log")
    with pytest.raises(SchemaError) as raised:
        log.configure({"module": "SERVER", "enable": "trace+", "outputFile": "/no.log"})
    assert str(raised.value) == "log outputFile: /no.log cannot be opened: Permission denied"
    assert log.settings("SERVER") == {
        "module": "SERVER",
        "enable": "default",
        "includeTimestamp": None,
        "includeSource": None,
        "format": None,
        "outputFile": None,
        "maxMegabytes": None,
        "keptFiles": None,
    }
    assert not log.enabled("SERVER", "trace")
    assert sinks.open == {"stderr"}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("I/O operation on closed file")])
def test_a_sink_that_fails_loses_the_line_and_nothing_else(log: Log, sinks: Sinks, error: Exception) -> None:
    sinks.full["stderr"] = error
    log.write("SERVER", "info", "text")
    assert log.lost == 1
    assert [line.text for line in log.recent()] == ["text"]


def test_lost_lines_are_told_once_a_minute_also_where_they_are_not_lost(sinks: Sinks) -> None:
    now = [NOON]
    log = Log(lambda: now[0], sinks.opener)
    serious: list[str] = []
    log.on_serious = lambda module, level, text: serious.append(text)
    log.poll()
    sinks.full["stderr"] = OSError(28, "No space left on device")
    for _ in range(3):
        log.write("SERVER", "info", "text")
    log.poll()
    log.poll()
    told = "3 log lines are lost: stderr: No space left on device"
    assert serious == [told]
    assert log.recent()[-1].text == told
    assert not sinks.lines["stderr"]
    sinks.full.clear()
    now[0] += timedelta(seconds=59)
    log.poll()
    assert not sinks.lines["stderr"]
    now[0] += timedelta(seconds=1)
    log.poll()
    now[0] += timedelta(hours=1)
    log.poll()
    assert [line.partition("ROUTER ")[2] for line in sinks.lines["stderr"]] == [
        "(error) 1 log lines are lost: stderr: No space left on device"  # the line about the others
    ]


def test_an_output_that_cannot_be_opened_again_stays_open_and_is_told(log: Log, sinks: Sinks) -> None:
    """Otherwise the log goes on in a file that a tool has renamed, and may remove."""
    log.configure({"module": "SERVER", "outputFile": "/log"})
    sinks.broken.add("/log")
    log.reopen()
    (line,) = sinks.lines["stderr"]
    assert line.endswith("ROUTER (error) /log cannot be opened again and stays open: Permission denied")
    log.write("SERVER", "info", "text")
    assert len(sinks.lines["/log"]) == 1


def test_recent_lines_are_kept_oldest_first_and_not_for_ever(log: Log) -> None:
    for number in range(RING_LINES + 5):
        log.write("ROUTER", "info", str(number))
    assert len(log.recent()) == RING_LINES
    assert [line.text for line in log.recent(2)] == [str(RING_LINES + 3), str(RING_LINES + 4)]
    assert log.recent(0) == []
    last = log.recent(1)[0]
    assert (last.module, last.level, last.file) == ("ROUTER", "info", "test_router_log.py")
    assert last.timestamp == int(NOON.timestamp())


def test_lines_are_counted_by_module_and_level(log: Log) -> None:
    for level in ("info", "info", "error"):
        log.write("ROUTER", level, "text")
    assert log.stats("ROUTER") == {**{f"{level}Count": 0 for level in LOG_LEVELS}, "infoCount": 2, "errorCount": 1}
    assert set(log.stats("SERVER").values()) == {0}


def test_every_module_has_settings(log: Log) -> None:
    log.configure({"module": "AGENT", "includeTimestamp": False})
    assert {module: log.settings(module)["module"] for module in LOG_MODULES} == {m: m for m in LOG_MODULES}
    assert log.settings("AGENT")["includeTimestamp"] is False


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "router.log"
    path.write_text("before\n", encoding="utf-8")
    log = Log(lambda: NOON)
    log.configure({"module": "DEFAULT", "outputFile": str(path), "includeTimestamp": False})
    log.write("ROUTER", "info", "grüß")
    assert path.read_text(encoding="utf-8") == "before\nROUTER (info) grüß\n", "written at once"
    log.close()


@pytest.mark.parametrize("output", ["", "/nowhere/at/all/x.log"])
def test_files_that_cannot_be_opened(output: str) -> None:
    with pytest.raises(SchemaError, match=r"log outputFile: .* cannot be opened"):
        Log(lambda: NOON).configure({"module": "ROUTER", "outputFile": output})


@pytest.mark.parametrize("name", ["stderr", "stdout"])
def test_standard_streams(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    sink = open_sink(name)
    stream = io.StringIO()
    monkeypatch.setattr(sys, name, stream)
    sink.write("info", "line")
    monkeypatch.setattr(sys, name, None)
    sink.write("info", "a daemon may have none")
    sink.close()
    assert stream.getvalue() == "line\n"


def test_the_system_log_gets_priorities_and_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, str]] = []
    monkeypatch.setattr(syslog, "syslog", lambda priority, line: seen.append((priority, line)))
    log = Log(lambda: NOON.astimezone(UTC))
    log.configure({"module": "DEFAULT", "outputFile": "syslog", "enable": "trace+"})
    for level in LOG_LEVELS:
        log.write("ROUTER", level, "text")
    log.close()
    assert seen[0] == (syslog.LOG_DEBUG, "ROUTER (trace) text")
    assert [priority for priority, _ in seen] == sorted((p for p, _ in seen), reverse=True)
