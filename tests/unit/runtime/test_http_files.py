"""Static files of `httpRootDir`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.http import files
from waymesh_router.runtime.http.files import StaticFiles
from waymesh_router.runtime.http.message import Answer, Request

pytestmark = pytest.mark.engine_independent

PAGE = b"<p>console</p>\n"
SECRET = b"secret\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of files, with other files beside it, and with links to files inside and outside."""
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "index.html").write_bytes(PAGE)
    (folder / "sub" / "a b.js").write_bytes(b"1")
    (folder / "sub" / "index.html").write_bytes(PAGE)
    (folder / "empty").touch()
    (folder / ".hidden").write_bytes(SECRET)
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "rooted").mkdir()
    (tmp_path / "rooted" / "secret").write_bytes(SECRET)
    (folder / "within.html").symlink_to("sub/index.html")
    (folder / "file").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to("..")
    (folder / "device").symlink_to("/dev/null")
    (folder / "nowhere").symlink_to("nothing")
    (folder / "round").symlink_to("round")
    os.mkfifo(folder / "pipe")
    return folder


def asked(root: Path, path: str, method: str = "GET", **fields: str) -> Answer | None:
    sent = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in fields.items())
    return StaticFiles("web", str(root)).answer(Request(method, path, "1.1", sent, False))


def content(answer: Answer | None) -> bytes:
    assert answer is not None
    assert answer.file is not None
    with answer.file as file:
        found = file.read()
    assert len(found) == answer.size
    return found


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/", PAGE),
        ("/index.html", PAGE),
        ("/?q=1", PAGE),
        ("/sub/", PAGE),
        ("/within.html", PAGE),
        ("/sub/a%20b.js", b"1"),
        ("/empty", b""),
    ],
)
def test_files(root: Path, path: str, wanted: bytes) -> None:
    assert content(asked(root, path)) == wanted


@pytest.mark.parametrize(
    "path",
    [
        "/missing", "/sub", "/empty/", "", "*", "index.html", "http://here/index.html", "//index.html",
        "/sub//index.html", "/.hidden", "/./index.html", "/sub/../index.html", "/../secret", "/%2e%2e/secret",
        "/..%2fsecret", "/%2e%2e%2fsecret", "/sub/..%2f..%2fsecret", "/..%5csecret", "/../rooted/secret", "/file",
        "/folder/secret", "/device", "/nowhere", "/round", "/pipe", "/index.html%00", "/%ff", "/index.html/",
        "/" + "x" * 5000,
    ],
)  # fmt: skip
def test_what_is_not_served(root: Path, path: str) -> None:
    assert asked(root, path) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(path=st.lists(st.sampled_from(["/", "..", ".", "%2e", "%2f", "sub", "folder", "file", "secret", "~", "%00"])))
def test_no_path_leads_out(root: Path, path: list[str]) -> None:
    answer = asked(root, "/" + "".join(path))
    assert answer is None or content(answer) != SECRET


def test_fields(root: Path) -> None:
    def kind(name: str) -> str:
        (root / name).write_bytes(b"x")
        answer = asked(root, f"/{name}")
        assert content(answer) == b"x"
        assert answer is not None
        return dict(answer.fields)["Content-Type"]

    assert kind("a.html") == "text/html; charset=utf-8"
    assert kind("a.js") == "text/javascript; charset=utf-8"
    assert kind("a.json") == "application/json"
    assert kind("a.svg") == "image/svg+xml"
    assert kind("a.txt.gz") == "application/octet-stream"
    assert kind("a") == "application/octet-stream"


def test_only_the_head_of_a_file(root: Path) -> None:
    answer = asked(root, "/", "HEAD")
    assert answer is not None
    assert (answer.status, answer.file, answer.size) == (200, None, len(PAGE))


def test_what_the_client_has_is_not_sent_again(root: Path) -> None:
    first = asked(root, "/", "HEAD")
    assert first is not None
    tag, date = (dict(first.fields)[name] for name in ("ETag", "Last-Modified"))
    since = "Thu, 01 Jan 1970 00:00:00 GMT"
    expected: list[tuple[dict[str, Any], int]] = [
        ({"if_none_match": tag}, 304),
        ({"if_none_match": f'"x", W/{tag}'}, 304),
        ({"if_none_match": "*"}, 304),
        ({"if_none_match": '"x"', "if_modified_since": date}, 200),
        ({"if_modified_since": date}, 304),
        ({"if_modified_since": since}, 200),
        ({"if_modified_since": "yesterday"}, 200),
    ]
    for fields, status in expected:
        answer = asked(root, "/", "HEAD", **fields)
        assert answer is not None
        assert answer.status == status, fields
    (root / "index.html").write_bytes(PAGE * 2)
    changed = asked(root, "/", "HEAD", if_none_match=tag)
    assert changed is not None
    assert changed.status == 200


def test_very_large_files_are_not_served(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", len(PAGE) - 1)
    answer = asked(root, "/")
    assert answer is not None
    assert (answer.status, answer.file) == (403, None)


def test_a_folder_that_is_none_is_refused(root: Path) -> None:
    for path in (root / "missing", root / "index.html"):
        with pytest.raises(HostError, match=r"listener web: httpRootDir: .*(No such file|Not a directory)"):
            StaticFiles("web", str(path))
