"""The kinds of findings of the analytics job, the most important facts of its report.

The job reports them, and the operator turns them into Events and a metric. The list is fixed: a kind's name is the
reason of its Events and a label of the metric.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from waymesh_schema.text import one_line


class Severity(StrEnum):
    """In order: the worst first."""

    BAD = "bad"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class FindingKind:
    """A kind of finding."""

    name: str
    severity: Severity
    # The table of the report with all cases.
    table: str
    # A short description.
    title: str
    # What to do.
    action: str


_ROWS = (
    (
        "RecordsMissing",
        Severity.BAD,
        "completeness",
        "Telemetry records are missing",
        "If column dropped counts them, the router had no room or a slow disk: enlarge its volume or sample fewer "
        "deliveries. Else look for exported files that were removed or not uploaded.",
    ),
    (
        "ConsumersStuck",
        Severity.BAD,
        "links",
        "Consumers leave deliveries unsettled for more than 10 s",
        "Look at what the consumer does with these messages: restart it if it hangs, or lower its credit.",
    ),
    (
        "ConsumersStarved",
        Severity.BAD,
        "links",
        "Consumers give no credit while deliveries wait",
        "Find out why the consumer gives no credit, or start more consumers.",
    ),
    (
        "AutoLinksFlapping",
        Severity.BAD,
        "autolinks",
        "Autolinks keep losing their container",
        "Look at the connection to the broker and at its log; last_error is the broker's reason.",
    ),
    (
        "MeshLinksLost",
        Severity.WARNING,
        "mesh_links",
        "Links between routers broke",
        "Look for routers that crashed or ran out of memory, and at the network between their nodes.",
    ),
    (
        "AutoLinksDown",
        Severity.WARNING,
        "autolinks",
        "Autolinks are down",
        "Create the queue or grant the right that the error names, or delete the autolink.",
    ),
    (
        "SendersWaiting",
        Severity.WARNING,
        "links",
        "Senders wait for outcomes for more than 10 s",
        "Look at the consumers of the address: they are stuck, starved or missing.",
    ),
    (
        "RoutersRestarted",
        Severity.WARNING,
        "routers",
        "Routers restarted",
        "If nobody restarted them, look at the last state of the pod: out of memory, evicted, or a failed probe.",
    ),
    (
        "ClientsDenied",
        Severity.WARNING,
        "denials",
        "Routers refused clients",
        "Grant the right by a VhostPolicy or create the address if the client should have it, else stop the client.",
    ),
    (
        "DeliveriesFailed",
        Severity.WARNING,
        "outcomes",
        "Consumers did not accept deliveries",
        "Rejected: correct the messages or the consumer. Released or dropped: start consumers, or more of them.",
    ),
    (
        "FailuresGrew",
        Severity.WARNING,
        "last_week",
        "More deliveries fail than a week ago",
        "Look for what changed in the consumers of the address since then.",
    ),
    (
        "LatencyGrew",
        Severity.WARNING,
        "last_week",
        "Deliveries take longer to settle than a week ago",
        "Compare traffic and the number of consumers; start more consumers if they are busy.",
    ),
    (
        "TrafficFell",
        Severity.WARNING,
        "last_week",
        "Traffic fell since last week",
        "Check that the producers of the address run and are connected.",
    ),
    (
        "LinesCorrupt",
        Severity.WARNING,
        "files",
        "Exported files contain lines that are not records",
        "Look at the lines in the store's folder quarantine, and at the disk or the copy that damaged them.",
    ),
    (
        "FilesTruncated",
        Severity.WARNING,
        "files",
        "Exported files are shorter than their names say",
        "Copy the files of table odd_files again from the router's volume, if they are still there.",
    ),
    (
        "ClocksChanged",
        Severity.WARNING,
        "completeness",
        "Wall clocks of routers changed",
        "Synchronize the clocks of the nodes (NTP): hours and times between routers are wrong otherwise.",
    ),
    (
        "TrafficGrew",
        Severity.INFO,
        "last_week",
        "Traffic grew since last week",
        "If it goes on, plan for more consumers and routers.",
    ),
    (
        "PathsLonger",
        Severity.INFO,
        "hops",
        "Deliveries took longer paths than the cheapest",
        "Look for links that were lost at that time, and at the costs of links.",
    ),
    (
        "DistributionUneven",
        Severity.INFO,
        "balance",
        "Deliveries are distributed unevenly",
        "Use distribution balanced, and give all consumers of the address the same credit.",
    ),
    (
        "HoursUnusual",
        Severity.INFO,
        "anomalies",
        "Hours differ from what is usual",
        "Look at what happened in this hour; if it was planned, no action is needed.",
    ),
)
FINDING_KINDS: dict[str, FindingKind] = {row[0]: FindingKind(*row) for row in _ROWS}
"""The kinds by name, the worst first."""


# ---- from the job to the operator

MESSAGE_VERSION = 1
MESSAGE_BYTES = 4096
"""Maximum size that Kubernetes keeps of the termination message of a container."""
_MAX_CASES = 2**53
"""Maximum integer that the value of a metric represents exactly."""
_LENGTHS = (600, 400, 300, 200, 150, 100, 70, 40, 0)
"""Maximum lengths of sentences, tried in order until all findings fit."""


@dataclass(frozen=True, slots=True)
class FoundKind:
    """How many cases of a kind were found, and the first of them in a sentence."""

    kind: FindingKind
    count: int
    text: str


def findings_message(found: Sequence[FoundKind]) -> str:
    """The findings as JSON of at most MESSAGE_BYTES in UTF-8; sentences are truncated if needed."""
    message = ""
    for length in _LENGTHS:
        rows = [{"kind": each.kind.name, "count": each.count, "text": _cut(each.text, length)} for each in found]
        message = json.dumps({"waymeshFindings": MESSAGE_VERSION, "findings": rows}, ensure_ascii=False)
        if len(message.encode()) <= MESSAGE_BYTES:
            break
    return message


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…" if length else ""


def parse_findings(message: str) -> list[FoundKind] | None:
    """Parse a message; None if it is not a findings message. Unknown kinds of later versions are left out. The message
    is not trusted: anybody who may create a pod can write one."""
    try:
        content = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, Mapping) or content.get("waymeshFindings") != MESSAGE_VERSION:
        return None
    rows = content.get("findings")
    found: dict[str, FoundKind] = {}
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, Mapping):
            continue
        kind, count, text = FINDING_KINDS.get(str(row.get("kind"))), row.get("count"), row.get("text")
        if kind is not None and type(count) is int and 0 < count <= _MAX_CASES and isinstance(text, str):
            found[kind.name] = FoundKind(kind, count, one_line(text))
    return list(found.values())
