"""Tables of `waymesh stat` against the output of qdstat that the Dispatch book shows."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_client.cli import cells, sheets, views
from waymesh_client.cli.table import format_csv, format_table
from waymesh_schema.entities import entity_type

pytestmark = pytest.mark.engine_independent

ALL_VIEWS = [
    views.CONNECTIONS,
    views.LINKS,
    views.NODES,
    views.ADDRESSES,
    views.AUTOLINKS,
    views.LINK_ROUTES,
    views.VHOSTS,
    views.VHOST_GROUPS,
    views.VHOST_STATS,
    views.OBJECTS,
]

# Dispatch book 3.3.2
ADDRESSES = """\
Router Addresses
  class   addr                   phs  distrib  in-proc  local  remote  cntnr  in  out  thru  to-proc  from-proc
  ===============================================================================================================
  local   $_management_internal       closest  1        0      0       0      0   0    0     0        0
  local   $displayname                closest  1        0      0       0      0   0    0     0        0
  mobile  $management            0    closest  1        0      0       0      2   0    0     2        0
  local   $management                 closest  1        0      0       0      0   0    0     0        0
  mobile  my-address             0    closest  0        1      0       0      0   0    0     0        0
  local   temp.75_d2X23x_KOT51        closest  0        1      0       0      0   0    0     0        0"""

# Dispatch book 3.5.1; our rule is two characters longer than the one shown there, as that of all other tables
AUTOLINKS = """\
AutoLinks
  addr          dir  phs  extAddr  link  status  lastErr
  =============================================================================
  queue.first   in   1             6     active
  queue.first   out  0             7     active
  queue.second  in   1                   failed  Node not found: queue.second
  queue.second  out  0                   failed  Node not found: queue.second"""


def address(key: str, in_process: int, local: int, ingress: int, to_container: int) -> dict[str, Any]:
    return {
        "name": key,
        "distribution": "closest",
        "inProcess": in_process,
        "subscriberCount": local,
        "remoteCount": 0,
        "containerCount": 0,
        "deliveriesIngress": ingress,
        "deliveriesEgress": 0,
        "deliveriesTransit": 0,
        "deliveriesToContainer": to_container,
        "deliveriesFromContainer": 0,
    }


def text(view: views.View, rows: list[dict[str, Any]], verbose: bool = False) -> str:
    return format_table(*view.table(rows, verbose))


def test_addresses_look_as_in_the_seed() -> None:
    rows = [
        address("M0$management", 1, 0, 2, 2),
        address("Ltemp.75_d2X23x_KOT51", 0, 1, 0, 0),
        address("L$management", 1, 0, 0, 0),
        address("M0my-address", 0, 1, 0, 0),
        address("L$displayname", 1, 0, 0, 0),
        address("L$_management_internal", 1, 0, 0, 0),
    ]
    assert text(views.ADDRESSES, rows) == ADDRESSES


def test_autolinks_look_as_in_the_seed() -> None:
    names = ("address", "direction", "phase", "externalAddress", "linkRef", "operStatus", "lastError")
    failed = ("failed", "Node not found: queue.second")
    rows = [
        dict(zip(names, values))
        for values in (
            ("queue.second", "in", 1, None, None, *failed),
            ("queue.second", "out", 0, None, None, *failed),
            ("queue.first", "in", 1, None, "6", "active", None),
            ("queue.first", "out", 0, None, "7", "active", None),
        )
    ]
    assert text(views.AUTOLINKS, rows) == AUTOLINKS


@pytest.mark.parametrize("view", ALL_VIEWS, ids=lambda view: view.title)
@pytest.mark.parametrize("verbose", [False, True])
def test_every_view_asks_for_attributes_that_exist(view: views.View, verbose: bool) -> None:
    assert set(view.attributes(verbose)) <= set(entity_type(view.entity_type).attributes)


@pytest.mark.parametrize("sheet", sheets.SHEETS.values(), ids=lambda sheet: sheet.title)
def test_every_sheet_shows_attributes_that_exist(sheet: sheets.EntityView) -> None:
    assert {name for _, name, _ in sheet.lines} <= set(entity_type(sheet.entity_type).attributes)


def test_memory() -> None:
    ours = {"memoryUsage": 50 << 20, "memoryLimit": 0, "memoryState": "normal", "bufferedBytes": 0}
    assert sheets.SHEETS["memory"].table(ours)[2] == [
        ["Memory Usage", "50.00 MiB"],
        ["Memory Limit", "none"],
        ["Memory State", "normal"],
        ["Waiting Messages", "0 B"],
    ]
    assert sheets.SHEETS["memory"].table({"memoryUsage": 1})[2] == [["Memory Usage", "1 B"]], "Qpid Dispatch"


@pytest.mark.parametrize("view", ALL_VIEWS, ids=lambda view: view.title)
def test_every_view_shows_an_entity_without_any_attribute(view: views.View) -> None:
    title, headings, rows = view.table([{}], True)
    assert title == view.title
    assert len(rows[0]) == len(headings)


def test_link_headings() -> None:
    headings = views.LINKS.table([], False)[1]
    assert " ".join(headings) == (
        "type dir conn id id peer class addr phs cap pri undel unsett deliv presett psdrop acc rej rel mod delay rate "
        "stuck cred blkd"
    )
    assert views.LINKS.table([], True)[1][-3:] == ["admin", "oper", "name"]


def test_links_between_routers_are_shown_last_unless_an_order_is_asked_for() -> None:
    kinds = ["router-control", "inter-router", "endpoint", "edge-downlink", "endpoint"]
    rows = [{"linkType": kind, "identity": str(number)} for number, kind in enumerate(kinds)]
    for in_order, expected in ((False, "24013"), (True, "01234")):
        _title, headings, cells = views.LINKS.table(rows, False, in_order)
        assert "".join(line[headings.index("id")] for line in cells) == expected


def test_connection() -> None:
    row = {
        "identity": "3",
        "host": "10.0.0.1:5000",
        "container": "c",
        "role": "normal",
        "dir": "in",
        "isEncrypted": True,
        "sslProto": "TLSv1.3",
        "sslCipher": "AES",
        "isAuthenticated": True,
        "sasl": "EXTERNAL",
        "user": "CN=me",
        "tenant": "t/",
        "uptimeSeconds": 93784,
    }
    assert text(views.CONNECTIONS, [row]).splitlines()[1:] == [
        "  id  host           container  role    dir  security      authentication  tenant  last dlv  uptime",
        "  " + "=" * 105,
        "  3   10.0.0.1:5000  c          normal  in   TLSv1.3(AES)  CN=me(x.509)    t       -         001:02:03:04",
    ]


def test_nodes() -> None:
    rows: list[dict[str, Any]] = [
        {"id": "B", "nextHop": None, "routerLink": 4, "lastTopoChange": 1_600_000_000, "cost": 1, "linkState": ["A"]},
        {"id": "A", "nextHop": "(self)", "routerLink": None, "lastTopoChange": 1_500_000_000, "validOrigins": []},
        {"id": "C", "nextHop": "B", "routerLink": None, "lastTopoChange": 0},
    ]
    assert text(views.NODES, rows).splitlines() == [
        "Routers in the Network",
        "Last Topology Change: Sunday Sep 13 12:26:40 2020 GMT",
        "  router-id  next-hop  link",
        "  ===========================",
        "  A          (self)    -",
        "  B          -         4",
        "  C          B         -",
    ]
    assert "['A']" in text(views.NODES, rows, verbose=True)


def test_no_rows_is_the_title_alone() -> None:
    assert text(views.CONNECTIONS, []) == "Connections"


def test_csv() -> None:
    table = format_csv("T", ["a", "b"], [["1", 'x"y'], ["", "é, z"]])
    assert table == 'T\n"a","b"\n"1","x""y"\n"","é, z"'


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("M0a.b", ("mobile", "a.b", "0")),
        ("M1q", ("mobile", "q", "1")),
        ("Lx", ("local", "x", "")),
        ("Tqdrouter", ("topo", "qdrouter", "")),
        ("RB", ("router", "B", "")),
        ("A0", ("area", "0", "")),
        ("Cl", ("link-in", "l", "")),
        ("Dl", ("link-out", "l", "")),
        ("Hr", ("edge", "r", "")),
        ("Zz", ("unknown: Z", "z", "")),
        ("M", ("mobile", "", "")),
        ("", ("", "", "")),
        (None, ("", "", "")),
    ],
)
def test_address_keys(key: str | None, expected: tuple[str, str, str]) -> None:
    assert (cells.address_class(key), cells.address_text(key), cells.address_phase(key)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (5 * 1024**2, "5.00 MiB"),
        (1024**5, "1024.00 TiB"),
    ],
)
def test_sizes(value: int | None, expected: str) -> None:
    assert cells.size(value) == expected


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        ({}, ("no-security", "no-auth")),
        ({"isAuthenticated": True, "sasl": "ANONYMOUS", "user": "anonymous"}, ("no-security", "anonymous-user")),
        ({"isAuthenticated": True, "sasl": "PLAIN", "user": "u"}, ("no-security", "u(PLAIN)")),
        ({"isAuthenticated": True, "sasl": "PLAIN"}, ("no-security", "PLAIN")),
        ({"isEncrypted": True, "sasl": "GSSAPI"}, ("Kerberos", "no-auth")),
    ],
)
def test_security_of_connections(connection: dict[str, Any], expected: tuple[str, str]) -> None:
    assert (cells.security(connection), cells.authentication(connection)) == expected


def test_counts_have_commas_and_priorities_may_be_absent() -> None:
    row = address("M0a", 0, 1234567, 0, 0) | {"priority": -1, "expiredDeliveries": 7654321}
    line = text(views.ADDRESSES, [row], verbose=True).splitlines()[-1].split()
    assert "1,234,567" in line
    assert "7,654,321" in line, "expired"
    assert line[4] == "-"


def test_a_name_that_a_client_chose_is_one_cell_of_printable_text() -> None:
    table = format_table("Connections", ["container"], [["evil\x1b[2J\nforged  row"]])
    assert table.splitlines()[3:] == [r"  evil\x1b[2J\nforged  row"]
    assert table.replace("\n", "").isprintable()
