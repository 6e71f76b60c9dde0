"""Log lines about connections and links, and GET-LOG, as in Qpid Dispatch."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kit.clients import Client
from tests.kit.process import section, standalone
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

LINES = (
    r"\[C(\d+)\] Connection Opened: dir=in host=127\.0\.0\.1:\d+ vhost=127\.0\.0\.1 encrypted=no auth=ANONYMOUS "
    r"user=anonymous container_id=\S+ role=normal",
    r"\[C(\d+)\]\[L\d+\] Link attached: dir=out name=\S+ address=M0q",
    r"\[C(\d+)\]\[L\d+\] Link attached: dir=in name=\S+ address=M0q",
    r"\[C(\d+)\]\[L\d+\] Link (?:lost|detached): del=2 presett=0 psdrop=0 acc=2 rej=0 rel=0 mod=0 "
    r"delay1=0 delay10=0 blocked=no",
    r"\[C(\d+)\] Connection Closed",
)


def missing(text: str) -> list[str]:
    """The forms of LINES that no line of the log has."""
    core = [line.partition("ROUTER_CORE (info) ")[2] for line in text.splitlines() if "ROUTER_CORE (info)" in line]
    core = [line.rpartition(" [event=")[0] for line in core]  # our own, at the end of the line
    return [form for form in LINES if not any(re.fullmatch(form, line) for line in core)]


def test_compat_22_events_and_the_request_itself_are_in_the_log(tmp_path: Path) -> None:
    router = standalone(tmp_path, extra=section("log", module="AGENT", enable="debug+"))
    router.start()
    try:
        with Client(router.url) as client:
            receiver, sender = client.receiver("q", credit=2), client.sender("q")
            sent = [sender.send(str(number)) for number in range(2)]
            for _ in sent:
                receiver.next().accept()
            assert [one.outcome() for one in sent] == ["accepted", "accepted"]
        wait_until(lambda: not missing(router.log), what=lambda: f"{missing(router.log)} in\n{router.log}")
        with ManagementClient(router.url) as management:
            management.node_operation("GET-LOG")
            rows = management.node_operation("GET-LOG", limit=50)
    finally:
        router.stop()
    assert all(re.fullmatch(r"\w+\.py", row[3]) and row[4] > 0 for row in rows)
    assert any(row[0] == "AGENT" and "get-log" in row[2] for row in rows)
