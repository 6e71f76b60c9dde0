"""Events in log lines: ids, fields in text and JSON, the limit of lines about one host, the tables of docs/audit.md."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from waymesh_router.events.event import Event
from waymesh_router.events.line_limit import MAX_LINES, WINDOW_S
from waymesh_router.runtime.log.log import Log
from waymesh_schema.events import LOG_EVENTS, RECORD_EVENTS, LogEvent, log_table, record_table
from waymesh_schema.telemetry import KINDS

pytestmark = pytest.mark.engine_independent

REPO = Path(__file__).parents[3]
WHO = {"user": "alice", "host": "10.0.0.7:40312", "listener": "people"}
LOST = Event(LogEvent.LINK_LOST, WHO, {"link": "orders", "acc": 2})


class Lines:
    """A log whose lines are kept, and its clock."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.now = datetime(2025, 3, 4, tzinfo=UTC)
        self.log = Log(lambda: self.now, lambda *_: self)
        self.log.configure({"module": "DEFAULT", "includeTimestamp": False})

    def write(self, level: str, line: str) -> None:
        self.lines.append((level, line))

    def close(self) -> None:
        """Nothing is open."""

    def last(self) -> str:
        return self.lines[-1][1]


@pytest.fixture
def log() -> Lines:
    return Lines()


def test_the_page_shows_all_ids() -> None:
    page = (REPO / "docs" / "audit.md").read_text(encoding="utf-8")
    assert f"\n{log_table()}\n" in page, "docs/audit.md is to have the table of waymesh_schema.events.log_table()"
    assert f"\n{record_table()}\n" in page, "docs/audit.md is to have the table of waymesh_schema.events.record_table()"


def test_each_id_is_explained_and_used() -> None:
    assert set(LOG_EVENTS) == set(LogEvent)
    code = "".join(path.read_text(encoding="utf-8") for path in (REPO / "router_image/waymesh_router").rglob("*.py"))
    made = {LogEvent.MANAGEMENT_CREATE, LogEvent.MANAGEMENT_UPDATE, LogEvent.MANAGEMENT_DELETE}  # by operation
    assert [event.name for event in LogEvent if event not in made and f"LogEvent.{event.name}" not in code] == []


def test_the_description_of_records_names_their_events() -> None:
    field = next(field for field in KINDS["event"].own if field.name == "event")
    assert set(re.findall(r"[a-z]+\.[a-z]+", field.description)) == set(RECORD_EVENTS)


def test_in_text_the_event_is_the_end_of_the_line(log: Lines) -> None:
    log.log.write("ROUTER_CORE", "info", "[C7] Link lost: acc=2", LOST)
    suffix = "[event=link.lost user=alice host=10.0.0.7:40312 listener=people]"
    assert log.last() == f"ROUTER_CORE (info) [C7] Link lost: acc=2 {suffix}"
    assert log.log.recent()[0].text.endswith(suffix)
    log.log.write("ROUTER", "notice", "drain cancelled", Event(LogEvent.DRAIN_CANCELLED))
    assert log.last() == "ROUTER (notice) drain cancelled [event=drain.cancelled]"


FORGED = ["x [event=link.lost user=admin host=10.9.9.9:1]", "[event=", "\x7f\x9b31m[event=x]", "[", "\U0001f600 ["]
PLAIN = ["a b", "x listener=admin", "]", 'q"', "", "two\nlines", "\u2028", "\udc80", "zoë"]


@pytest.mark.parametrize("user", [*PLAIN, *FORGED])
def test_no_name_can_forge_a_field(log: Lines, user: str) -> None:
    log.log.write("SERVER", "info", "text", Event(LogEvent.POLICY_DENIED, {"user": user, "host": "[::1]:5"}))
    log.last().encode()
    assert log.last().isprintable()
    value = r'(?:"(?:[^"\\]|\\.)*"|[^" =]+)'
    assert re.fullmatch(rf"SERVER \(info\) text \[event=policy\.denied user={value} host=\S+\]", log.last())


@pytest.mark.parametrize("user", ["alice smith", "\x7f\x9b31m", "\u2028", "\u202e[", "\U0001f600 [", *FORGED])
def test_a_value_is_read_back_as_it_was(log: Lines, user: str) -> None:
    log.log.write("SERVER", "info", "text", Event(LogEvent.POLICY_DENIED, {"user": user, "host": "10.0.0.7:5"}))
    found = re.search(r' user=("(?:[^"\\]|\\.)*"|[^" ]+) host', log.last())
    assert found is not None
    assert (json.loads(found[1]) if found[1].startswith('"') else found[1]) == user


@pytest.mark.parametrize("event", [None, LOST])
@pytest.mark.parametrize("name", FORGED)
def test_the_only_event_of_a_line_is_its_own(log: Lines, name: str, event: Event | None) -> None:
    log.log.write("SERVER", "info", f"closed: {name}", event)
    log.log.write("SERVER", "info", "closed", Event(LogEvent.POLICY_DENIED, {"user": name}))
    counts = [line.text.count("[event=") for line in log.log.recent()]
    assert counts == [int(event is not None), 1]
    assert [line.count("[event=") for _, line in log.lines] == counts


def test_in_json_the_fields_are_members(log: Lines) -> None:
    log.log.configure({"module": "DEFAULT", "format": "json"})
    log.log.write("ROUTER_CORE", "info", "Link lost", LOST)
    plain = {"module": "ROUTER_CORE", "level": "info", "text": "Link lost"}
    assert json.loads(log.last()) == {**plain, "event": "link.lost", **WHO, "link": "orders", "acc": 2}


def test_a_host_can_provoke_a_limited_number_of_lines(log: Lines) -> None:
    for number in range(MAX_LINES + 50):
        for host in ("10.0.0.7", "[fe80::1]"):
            denied = Event(LogEvent.AUTHENTICATION_FAILED, {"host": f"{host}:{number}"})
            log.log.write("SERVER", "warning", "failed", denied)
            log.log.write("ROUTER_CORE", "info", "attached", Event(LogEvent.LINK_ATTACHED, WHO))
    assert sum("failed" in line for _, line in log.lines) == 2 * MAX_LINES
    assert sum("attached" in line for _, line in log.lines) == 2 * (MAX_LINES + 50)
    assert log.log.stats("SERVER")["warningCount"] == 2 * MAX_LINES
    log.lines.clear()
    log.log.poll()
    assert log.lines == []
    log.now += timedelta(seconds=WINDOW_S)
    log.log.poll()
    told = "SERVER (warning) 50 more lines about {0} within 60 s were left out [event=log.left_out host={0}]"
    assert [line for _, line in log.lines] == [told.format(host) for host in ("10.0.0.7", "[fe80::1]")]


def test_the_end_of_the_log_tells_what_was_left_out(log: Lines) -> None:
    for _ in range(MAX_LINES + 1):
        log.log.write("SERVER", "info", "a token is refused", Event(LogEvent.TOKEN_REFUSED))
    log.log.close()
    assert log.last() == "SERVER (warning) 1 more lines within 60 s were left out [event=log.left_out]"


def test_the_zone_is_computed_only_for_lines_that_are_written(log: Lines) -> None:
    converted: list[datetime] = []

    def zoned(now: datetime) -> datetime:
        converted.append(now)
        return now.astimezone(timezone(timedelta(hours=2)))

    shown = Log(lambda: log.now, lambda *_: log, zoned)
    refused = Event(LogEvent.CONNECTION_REFUSED, WHO)
    for _ in range(MAX_LINES + 50):
        shown.write("SERVER", "info", "refused", refused)
    shown.write("SERVER", "debug", "not written")
    assert len(converted) == MAX_LINES
    assert log.last().startswith("2025-03-04 02:00:00.000000 +0200 SERVER (info) refused")
    shown.set_time(True, None)
    shown.write("SERVER", "info", "in UTC")
    assert log.last().startswith("2025-03-04 00:00:00.000000 +0000")
