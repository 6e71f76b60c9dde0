"""All errors of a configuration are reported together, each with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from waymesh_schema.config import ConfigError, parse_conf, parse_json, read_config

pytestmark = pytest.mark.engine_independent

CONF = """\
router {
    mode: sideways
    workers: 3
}
listner {
}
listener {
    port: 99999
    role: client
    host: a
    host: b
}
address {
    prefix: a
    pattern: b
}
address {
    prefix: a
}
address {
    prefix: a
}
"""


def test_all_errors_of_a_file_in_their_order() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_conf(CONF, "t.conf")
    starts = [
        "t.conf:11: listener host: is given twice",
        "t.conf:3: router workers: no such attribute",
        "t.conf:2: router mode: must be one of standalone, interior, edge, not 'sideways'",
        "t.conf:5: listner: no such entity type; did you mean listener?",
        "t.conf:8: listener port: must be a port number from 0 to 65535",
        "t.conf:9: listener role: must be one of normal, inter-router, route-container, edge, not 'client'",
        "t.conf:15: router.config.address pattern: prefix and pattern exclude each other",
        "t.conf:20: router.config.address prefix: 'a' already exists at line 17",
    ]
    assert len(raised.value.problems) == len(starts)
    for problem, start in zip(raised.value.problems, starts):
        assert str(problem).startswith(start)
    assert str(raised.value) == "\n".join(map(str, raised.value.problems))


def test_what_stands_before_a_syntax_error_is_checked_too() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_conf("router {\n mode: x\n}\nlistener\nconnector {\n cost: x\n}", "t.conf")
    places = [str(problem).split(" ")[0] for problem in raised.value.problems]
    assert places == ["t.conf:4:", "t.conf:2:"]


def test_all_errors_of_a_json_file() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_json('[["router", {"mode": "x"}],\n1,\n["listener", {"cost": "x"}]]', "t.json")
    assert sorted(problem.line for problem in raised.value.problems) == [1, 2, 3]


def test_errors_of_several_files_and_of_the_policy_folder(tmp_path: Path) -> None:
    (tmp_path / "vhosts").mkdir()
    (tmp_path / "vhosts" / "v.json").write_text('[["listener", {}], ["vhost", {}]]', encoding="utf-8")
    (tmp_path / "one.conf").write_text(f"policy {{\n policyDir: {tmp_path}/vhosts\n}}\nx {{\n}}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        read_config(tmp_path / "one.conf", tmp_path / "none.conf")
    assert [Path(problem.filename).name for problem in raised.value.problems] == [
        "one.conf",
        "none.conf",
        "v.json",
        "v.json",
    ]
