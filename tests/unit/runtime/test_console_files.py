"""The files of the console, as a listener serves them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.http.console import ConsoleFiles
from waymesh_router.runtime.http.message import Answer, Request

pytestmark = pytest.mark.engine_independent

SCRIPT = b"export {};\n" * 100


@pytest.fixture
def console(tmp_path: Path) -> ConsoleFiles:
    for name, content in (("console.js", SCRIPT), ("index.html", b"<p>")):
        (tmp_path / name).write_bytes(content)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    (tmp_path / "digest").write_text("abc", encoding="utf-8")
    return ConsoleFiles("web", tmp_path)


def ask(console: ConsoleFiles, path: str, method: str = "GET", **fields: str) -> Answer | None:
    head = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in fields.items())
    return console.answer(Request(method, path, "1.1", head, early=False))


def found(console: ConsoleFiles, path: str, **fields: str) -> tuple[Answer, dict[str, str]]:
    answer = ask(console, path, **fields)
    assert answer is not None
    return answer, dict(answer.fields)


def test_files_are_compressed_for_clients_that_take_it(console: ConsoleFiles) -> None:
    answer, fields = found(console, "/console/console.js", accept_encoding="gzip, br")
    assert gzip.decompress(answer.body) == SCRIPT
    assert fields["Content-Encoding"] == "gzip"
    assert fields["Content-Type"] == "text/javascript; charset=utf-8"
    answer, fields = found(console, "/console/console.js")
    assert answer.body == SCRIPT
    assert "Content-Encoding" not in fields


def test_an_unchanged_file_is_not_sent_again(console: ConsoleFiles) -> None:
    _, fields = found(console, "/console/")
    assert fields["Cache-Control"] == "no-cache"
    answer, fields = found(console, "/console/", if_none_match=fields["ETag"])
    assert (answer.status, answer.body) == (304, b"")
    assert found(console, "/console/", if_none_match='"other"')[0].status == 200


def test_the_page_runs_no_script_of_others_and_stands_in_no_frame(console: ConsoleFiles) -> None:
    policy = found(console, "/console/")[1]["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["/", "/console"])
def test_short_addresses_lead_to_it(console: ConsoleFiles, path: str) -> None:
    answer, fields = found(console, path)
    assert (answer.status, fields["Location"]) == (302, "/console/")


@pytest.mark.parametrize("path", ["digest", "../digest", "no", "console.js.gz"])
def test_nothing_else_is_served(console: ConsoleFiles, path: str) -> None:
    assert ask(console, f"/console/{path}") is None


def test_only_get_and_head_are_answered(console: ConsoleFiles) -> None:
    assert ask(console, "/console/", "POST") is None
    assert ask(console, "/console/", "HEAD") is not None


def test_a_listener_is_refused_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"listener web: console: this installation is without it .* make console"):
        ConsoleFiles("web", tmp_path / "none")
