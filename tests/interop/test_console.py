"""The console in a real browser, before a mesh whose figures are known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

from tests.kit.browser import Page, opened
from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh
from tests.kit.mesh import Mesh, wait_address
from tests.kit.ports import free_port
from tests.kit.tokens import AUDIENCE, ISSUER, Issuer, keys_file
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient
from waymesh_router.runtime.http.console import BUNDLE

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

AXE = BUNDLE.parent / "node_modules" / "axe-core" / "axe.min.js"
DEADLINE_S = 60.0
ALERT = "document.querySelector('[role=alert]')?.innerText ?? ''"
HOSTILE = "=<img src=x onerror=alert(1)>"
IN_VIEW = """(box => box.left >= 0 && box.right <= innerWidth + 1)(
    document.querySelector('nav [aria-current]').getBoundingClientRect())"""
BESIDE = """[...document.querySelectorAll('tr.below div')].filter(text => ((box, table) =>
    !box.width || box.left < table.left || box.right > table.right || text.scrollWidth > text.clientWidth
    )(text.getBoundingClientRect(), text.closest('.scroll').getBoundingClientRect())).length"""
"""How many texts below rows are not in sight as a whole, from left to right."""
HIGHEST = "Math.max(...[...document.querySelectorAll('tbody tr:not(.detail)')].map(row => row.offsetHeight))"
PAGES = (
    *("overview", "topology", "addresses", "links", "connections", "autolinks"),
    *("policy", "certificates", "entities", "flow", "events", "log", "report"),
)


@pytest.fixture(autouse=True)
def built() -> None:
    """The bundle is there, as after `make test`."""
    assert AXE.exists(), "the console is not built: make console"
    assert (BUNDLE / "index.html").exists(), "the console is not built: make console"


@pytest.fixture
def mesh(start_mesh: StartMesh) -> Mesh:
    return start_mesh(2)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    (tmp_path / "browser").mkdir()
    with opened(tmp_path / "browser") as found:
        found.look(1400, "light")
        yield found


def serve(mesh: Mesh, **attributes: object) -> str:
    """The console at a new listener of router A; its address."""
    port = free_port()
    mesh["A"].ports.append(port)
    given = {"host": "127.0.0.1", "port": str(port), "http": True, "console": True, **attributes}
    with ManagementClient(mesh["A"].url) as client:
        client.create("listener", given, name="web")
    return f"http://127.0.0.1:{port}/console/"


def show(page: Page, address: str, place: str) -> None:
    """Open a page of the console anew."""
    page.visit("about:blank")
    page.visit(f"{address}#/{place}")


def cells(page: Page, table: str) -> dict[str, dict[str, str]]:
    """The rows of a table by their first cell, each with its cells by heading."""
    found = page.run(
        f"""[...document.querySelectorAll('[aria-label="{table}"] table')].map(t => [
            [...t.querySelectorAll('th')].map(h => h.innerText.replace(/ [↑↓]$/, '')),
            ...[...t.querySelectorAll('tbody tr:not(.detail)')].map(r => [...r.cells].map(c => c.innerText))
        ])[0] ?? []"""
    )
    return {row[0]: dict(zip(found[0], row)) for row in found[1:]} if found else {}


def wait_cell(page: Page, table: str, row: str, **wanted: str) -> None:
    """Until the cells of a row have these texts."""
    wait_until(
        lambda: wanted.items() <= cells(page, table).get(row, {}).items(), DEADLINE_S, lambda: f"{cells(page, table)}"
    )


def press(page: Page, button: str) -> None:
    """Press the button with this text, when it is there."""
    find = f"[...document.querySelectorAll('button')].find(b => b.innerText === {button!r})"
    wait_until(lambda: page.run(f"Boolean({find})"), DEADLINE_S, f"the button {button}")
    page.run(f"{find}.click()")


def test_figures_are_those_of_the_mesh(mesh: Mesh, page: Page) -> None:
    address = serve(mesh)
    with Client(mesh["B"].url, container_id=HOSTILE) as consumer, Client(mesh["A"].url) as producer:
        taken, held = consumer.receiver("taken", credit=10), consumer.receiver(HOSTILE, credit=10)
        for name in ("taken", HOSTILE):
            wait_address(mesh["A"], name, remote=1)
        taking, holding = producer.sender("taken"), producer.sender(HOSTILE)
        for _ in range(7):
            taking.send(Message(body="x"), wait=False)
        taken.take(7)
        for _ in range(3):
            holding.send(Message(body="x"), wait=False)
        held.take(3, accept=False)

        show(page, address, "addresses")
        wait_cell(page, "addresses", "taken", Producers="1", Consumers="1", In="7", Out="7", Unsettled="0")
        wait_cell(page, "addresses", HOSTILE, Producers="1", Consumers="1", In="3", Unsettled="6")
        show(page, address, "links?router=B")
        wait_cell(page, "links", HOSTILE, Credit="7", Unsettled="3", Deliveries="3", Accepted="0", Router="B")
        show(page, address, "overview")
        wait_cell(page, "routers", "A", Mode="interior", Unsettled="3")
        wait_cell(page, "routers", "B", Mode="interior")
        show(page, address, "topology")
        routers = "document.querySelectorAll('.graph .interior').length"
        wait_until(lambda: page.run(routers) == 2, DEADLINE_S, "two routers")
        assert page.run("document.querySelectorAll('img').length") == 0
        assert page.errors == []


def shown_page(place: str) -> str:
    """An expression: whether this page is there, with its table."""
    current = f"document.querySelector('nav [aria-current=page]')?.hash === '#/{place}'"
    content = "main code" if place == "report" else "table"
    return f"Boolean({current} && document.querySelector('{content}'))"


def test_pages_are_accessible_and_fit(mesh: Mesh, page: Page) -> None:
    address, axe = serve(mesh), AXE.read_text(encoding="utf-8")
    # One load: the pages are those of one script, which follows the address.
    show(page, address, PAGES[0])
    page.run(f"{axe}; 0")
    for place in PAGES:
        page.run(f"location.hash = '#/{place}'")
        wait_until(lambda: page.run(shown_page(place)), DEADLINE_S, f"the page {place}")  # noqa: B023
        # Also in a narrow window, as it is from the second page on, the list of pages shows which one this is.
        wait_until(lambda: page.run(IN_VIEW), DEADLINE_S, f"{place} in the list of pages")
        for width, scheme in ((1400, "light"), (360, "dark")):
            page.look(width, scheme)
            # Charts take the new width when the browser tells them, a little later.
            fits = "document.documentElement.scrollWidth <= innerWidth"
            wait_until(lambda: page.run(fits), DEADLINE_S, f"{place} fits into {width} px")  # noqa: B023
            run = "axe.run().then(found => { window.found = found.violations.map(v => [v.impact, v.id]) })"
            page.call("Runtime.evaluate", expression=run, awaitPromise=True)
            assert [one for one in page.run("found") if one[0] in ("serious", "critical")] == [], (place, width)
    assert page.errors == []
    assert {url.split("/")[2] for url in page.requested if url.startswith("http")} == {address.split("/")[2]}


@pytest.mark.parametrize("place", ["events", "log"])
def test_a_narrow_window_shows_the_text_of_each_line(mesh: Mesh, page: Page, place: str) -> None:
    address = serve(mesh)
    page.look(360, "light")
    with Client(mesh["A"].url, container_id="a-name-of-a-client-that-is-long" * 5):
        show(page, address, place)
        wait_until(lambda: page.run("document.querySelectorAll('tr.below div').length > 3"), DEADLINE_S, "lines")
        assert page.run(BESIDE) == 0
        assert page.run(HIGHEST) < 40, "a row has one line"
        # What is below the rows in a narrow window is a cell of the row in a wide one.
        page.look(1400, "light")
        wait_until(lambda: page.run(BESIDE) == page.run("document.querySelectorAll('tr.below div').length"), DEADLINE_S)
        assert page.run("[...document.querySelectorAll('td.long')].every(text => text.offsetWidth > 0)")


@pytest.mark.parametrize(("right", "told"), [("write", "Done."), ("read", "Not allowed")])
def test_a_user_does_what_the_router_allows(mesh: Mesh, page: Page, right: str, told: str) -> None:
    address = serve(mesh, management=right)
    with Client(mesh["A"].url, container_id="victim") as victim:
        victim.receiver("orders")
        show(page, address, "connections?router=A&search=victim")
        wait_until(lambda: len(cells(page, "connections")) == 1, DEADLINE_S, "the connection")
        press(page, next(iter(cells(page, "connections"))))
        press(page, "Close…")
        press(page, "Close")
        if right == "write":
            victim.wait_ended()
        else:
            wait_until(lambda: told in page.run("document.body.innerText"), DEADLINE_S, told)
            assert "victim" in str(cells(page, "connections"))


def fill(page: Page, field: str, value: str) -> None:
    """Set a field of a form, as a user does."""
    page.run(
        f"""(field => {{
            Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, {value!r});
            field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input', {{bubbles: true}}));
        }})(document.querySelector('form [name={field}]'))"""
    )


@pytest.mark.parametrize("right", ["write", "read"])
def test_entities_are_created_changed_and_deleted(mesh: Mesh, page: Page, right: str) -> None:
    address = serve(mesh, management=right)
    with ManagementClient(mesh["A"].url) as client:
        show(page, address, "entities?type=router.config.address&router=A&create=yes")
        wait_until(lambda: page.run("document.querySelectorAll('form [name=prefix]').length"), DEADLINE_S, "the form")
        for field, value in (("name", HOSTILE), ("prefix", "orders"), ("distribution", "multicast"), ("priority", "7")):
            fill(page, field, value)
        press(page, "Create…")
        press(page, "Create")
        if right == "read":
            wait_until(lambda: "Not allowed" in page.run("document.body.innerText"), DEADLINE_S, "the refusal")
            assert not client.query("router.config.address", ["name"])
            return
        wait_until(lambda: len(cells(page, "router.config.address")) == 1, DEADLINE_S, "the row")
        (made,) = client.query("router.config.address", ["name", "prefix", "distribution", "priority", "pattern"])
        assert made == {
            "name": HOSTILE, "prefix": "orders", "distribution": "multicast", "priority": 7, "pattern": None,
        }  # fmt: skip
        press(page, next(iter(cells(page, "router.config.address"))))
        press(page, "Delete…")
        press(page, "Delete")
        wait_until(lambda: not client.query("router.config.address", ["name"]), DEADLINE_S, "its end")

        show(page, address, "entities?type=log&router=A&search=log/AGENT")
        wait_until(lambda: len(cells(page, "log")) == 1, DEADLINE_S, "the row")
        press(page, next(iter(cells(page, "log"))))
        press(page, "Edit")
        fill(page, "enable", "trace+")
        press(page, "Update…")
        press(page, "Update")
        wait_until(lambda: client.read("log", identity="log/AGENT")["enable"] == "trace+", DEADLINE_S, "the level")
        assert page.run("document.querySelectorAll('img').length") == 0
        assert page.errors == []


def test_policy_and_certificates_show_what_is_so(mesh: Mesh, page: Page, tmp_path: Path) -> None:
    address = serve(mesh)
    pair = Authority(tmp_path).issue("server", {"CN": "localhost"}, ("localhost",))
    with ManagementClient(mesh["A"].url) as client:
        client.create("sslProfile", {"certFile": str(pair.cert), "privateKeyFile": str(pair.key)}, name="tls")
        client.update({"dryRun": True}, "policy")
        show(page, address, "certificates?router=A")
        wait_until(lambda: ", in " in cells(page, "certificates").get("tls", {}).get("Expires", ""), DEADLINE_S, "tls")
        show(page, address, "policy?router=A")
        wait_cell(page, "policy", "A", **{"Dry run": "yes"})
        press(page, "A")
        press(page, "Enforce policy…")
        press(page, "Enforce policy")
        wait_cell(page, "policy", "A", **{"Dry run": "no"})
        assert page.errors == []


def test_a_lost_router_is_shown(mesh: Mesh, page: Page) -> None:
    address = serve(mesh)
    show(page, address, "overview")
    wait_cell(page, "routers", "B", Mode="interior")
    mesh["B"].kill()
    fault = "document.querySelector('.faults').innerText"
    wait_until(lambda: "B: does not answer" in page.run(fault), DEADLINE_S, lambda: str(page.run(fault)))
    wait_until(lambda: "figures are" in page.run("document.body.innerText"), DEADLINE_S, "the age of its figures")


def test_without_tls_no_password_is_asked_for(mesh: Mesh, page: Page, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:{plain}secret\n", encoding="utf-8")
    address = serve(mesh, authenticatePeer=True, usersFile=str(users))
    show(page, address, "overview")
    wait_until(lambda: "over TLS only" in page.run("document.body.innerText"), DEADLINE_S, "the text about TLS")
    assert page.run("document.querySelectorAll('input').length") == 0


def secured(mesh: Mesh, folder: Path, **attributes: object) -> str:
    """The console at a listener with TLS and a login."""
    authority = Authority(folder)
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost",))
    files = {"caCertFile": str(authority.cert), "certFile": str(pair.cert), "privateKeyFile": str(pair.key)}
    with ManagementClient(mesh["A"].url) as client:
        client.create("sslProfile", files, name="tls")
    given = {"sslProfile": "tls", "requireSsl": True, "authenticatePeer": True, **attributes}
    return serve(mesh, **given).replace("http://127.0.0.1", "https://localhost")


@pytest.mark.parametrize("kind", ["password", "token"])
def test_users_log_in_over_tls(mesh: Mesh, page: Page, tmp_path: Path, kind: str) -> None:
    issuer = Issuer()
    users = tmp_path / "users"
    users.write_text("alice:{plain}secret\n", encoding="utf-8")
    profile = {"issuer": ISSUER, "audience": AUDIENCE, "keysFile": str(keys_file(tmp_path, issuer.jwks()))}
    with ManagementClient(mesh["A"].url) as client:
        client.create("tokenProfile", profile, name="tokens")
    address = secured(mesh, tmp_path, usersFile=str(users), tokenProfile="tokens")
    page.call("Security.setIgnoreCertificateErrors", ignore=True)
    good, user, shown = {"password": ("secret", "alice", "PLAIN"), "token": (issuer.token(), "", "XOAUTH2")}[kind]
    show(page, address, "connections?router=A")
    for secret in (f"{good}x", good):
        wait_until(lambda: page.run("document.querySelectorAll('form.login').length"), DEADLINE_S, "the form")
        page.run(f"document.querySelectorAll('form.login select').forEach(s => {{ s.value = {kind!r}; "
                 "s.dispatchEvent(new Event('change', {bubbles: true})); })")
        enter(page, 0, user)
        enter(page, 1, secret)
        page.run("document.querySelector('form.login button').click()")
        if secret != good:
            wait_until(lambda: "did not accept" in page.run(ALERT), DEADLINE_S, "the refusal")
    wait_until(lambda: f'"{shown}"' in str(json.dumps(cells(page, "connections"))), DEADLINE_S, shown)
    assert "alice" in str(cells(page, "connections"))
    press(page, "Log out")
    wait_until(lambda: page.run("document.querySelectorAll('form.login').length"), DEADLINE_S, "the form again")


def enter(page: Page, number: int, value: str) -> None:
    """Set a field of the form of the login, by its number."""
    page.run(
        f"""(field => {{
            Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, {value!r});
            field.dispatchEvent(new Event('input', {{bubbles: true}}));
        }})(document.querySelectorAll('form.login input')[{number}])"""
    )


def test_the_flow_is_that_of_the_time_watched(mesh: Mesh, page: Page) -> None:
    address = serve(mesh)
    with Client(mesh["B"].url) as consumer, Client(mesh["A"].url) as producer:
        taking, sending = consumer.receiver("orders", credit=50), producer.sender("orders")
        wait_address(mesh["A"], "orders", remote=1)
        sending.send(Message(body="before"))
        taking.take(1)
        show(page, address, "flow")
        # Both routers have been read once: what comes now counts.
        wait_until(lambda: "2 of 2 routers" in page.run("document.body.innerText"), DEADLINE_S, "the first readings")
        for _ in range(5):
            sending.send(Message(body="x"), wait=False)
        taking.take(5)
        wait_cell(page, "flow", "orders", **{"Entered at": "A", "Left at": "B", "Deliveries": "5"})
        assert page.errors == []


def test_the_policy_is_checked_by_a_form(mesh: Mesh, page: Page) -> None:
    address = serve(mesh, management="read")
    with ManagementClient(mesh["B"].url) as client:
        group = {"users": HOSTILE, "remoteHosts": "*", "sources": "news*"}
        client.create("vhost", {"hostname": "v", "groups": {"staff": group}})
        client.update({"enableVhostPolicy": True}, "policy")
    show(page, address, "policy?router=B&hostname=v")
    wait_until(lambda: page.run("document.querySelectorAll('form [name=user]').length"), DEADLINE_S, "the form")
    answer = "document.querySelector('[aria-label=Answers]').innerText"
    for name, value in (("user", HOSTILE), ("host", "10.1.2.3"), ("address", "orders")):
        fill(page, name, value)
    for wanted, asked in (
        ("link denied: sources have no rule for 'orders': news*", "orders"),
        ("sources allow 'news.1': 'news*'", "news.1"),
    ):
        fill(page, "address", asked)
        press(page, "Check")
        wait_until(lambda: wanted in page.run(answer), DEADLINE_S, wanted)  # noqa: B023
    assert "B: allowed" in page.run(answer)
    fill(page, "host", "nowhere")
    press(page, "Check")
    wait_until(lambda: "must be a numeric address" in page.run(answer), DEADLINE_S, "the refusal")
    assert "host=nowhere" in page.run("location.hash")
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.errors == []


def test_events_lead_to_connection_link_and_address(mesh: Mesh, page: Page) -> None:
    address = serve(mesh)
    with Client(mesh["A"].url, container_id="buyer") as buyer:
        buyer.receiver("orders")
        show(page, address, "events?router=A&kind=link&search=orders")
        # Of each of its lines, the newest is the first.
        rows = "[...document.querySelectorAll('[aria-label=events] tbody tr')].map(r => r.innerText)"
        wait_until(lambda: "link.attached" in str(page.run(rows)), DEADLINE_S, lambda: str(page.run(rows)))
        links = page.run("[...document.querySelectorAll('[aria-label=events] tbody a')].map(a => a.hash)")
        (connection,) = {one for one in links if one.startswith("#/connections")}
        for place, wanted in ((connection, "buyer"), (next(one for one in links if "#/links" in one), "orders")):
            page.run(f"location.hash = {place!r}")
            opened = "document.querySelector('tr.detail:not(.below)')?.innerText ?? ''"
            wait_until(lambda: wanted in page.run(opened), DEADLINE_S, wanted)  # noqa: B023
        assert "#/addresses?search=orders" in links
        assert page.errors == []
