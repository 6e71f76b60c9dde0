"""Manifests: accepted ones, and the message for every refusal."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from waymesh_operator.errors import ManifestError
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.manifests import parse_text, read_files
from waymesh_operator.resources.router import Ref
from waymesh_operator.resources.validation import Checked, check

pytestmark = pytest.mark.engine_independent

CRDS = load_crds()
EXAMPLES = Path(__file__).parents[3] / "examples"
ROUTER = "apiVersion: waymesh.io/v1alpha1\nkind: Router\nmetadata: {name: mesh}\n"
ADDRESS = "apiVersion: waymesh.io/v1alpha1\nkind: Address\nmetadata: {name: orders}\n"


def accept(text: str, before: Checked | None = None) -> Checked:
    documents, problems = parse_text(text, "m.yaml")
    assert problems == []
    return check(documents, CRDS, before)


def refuse(text: str, before: Checked | None = None) -> list[str]:
    documents, problems = parse_text(text, "m.yaml")
    try:
        check(documents, CRDS, before)
    except ManifestError as error:
        problems.extend(error.problems)
    assert problems
    return [str(problem) for problem in problems]


@pytest.mark.parametrize(
    "path", sorted((*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("cluster/*.yaml"))), ids=lambda path: path.name
)
def test_examples_are_valid(path: Path) -> None:
    documents, problems = read_files([path])
    assert problems == []
    assert check(documents, CRDS).routers


def test_defaults_are_applied() -> None:
    (router,) = accept(ROUTER + "spec: {}\n").routers
    assert (router.ref, router.size, router.role, router.topology) == (Ref("default", "mesh"), 1, "interior", "Auto")
    assert router.listeners == (Listener("amqp", 5672),)
    assert (router.drain_timeout_s, router.log_level, router.drift, router.paused) == (30, "info", "Repair", False)


def test_nested_defaults_and_lists() -> None:
    text = (
        ROUTER
        + "spec: {listeners: [{name: a, port: 1024, tls: true}], logging: {modules: [{module: HTTP, level: none}]}}\n"
    )
    (router,) = accept(text).routers
    assert router.listeners == (Listener("a", 1024, tls=True, auth="none"),)
    assert (router.log_level, router.log_levels) == ("info", (("HTTP", "none"),))


def test_a_listener_with_a_certificate_and_authorities_of_its_own() -> None:
    own = "certificate: {secretRef: {name: c}}, clientAuthorities: {secretRef: {name: d}, revocation: true}"
    spec = f"spec: {{listeners: [{{name: a, port: 1024, tls: true, auth: mtls, {own}}}]}}\n"
    (router,) = accept(ROUTER + spec).routers
    (listener,) = router.listeners
    assert (listener.certificate, listener.authorities, listener.revocation) == ("c", "d", True)


def test_a_listener_of_tenants() -> None:
    spec = """spec:
      listeners:
      - {name: a, port: 1024, tenancy: {mode: ByHostname, aliasSpaces: true}, management: read}
      - {name: b, port: 1025, tenancy: {mode: Fixed, vhost: b.example}, management: none}
      - {name: c, port: 1026}
    """
    (router,) = accept(ROUTER + spec).routers
    found = [(one.tenants, one.vhost, one.management, one.alias_spaces) for one in router.listeners]
    assert found == [(True, "", "read", True), (True, "b.example", "none", False), (False, "", "none", False)]
    wrong = refuse(ROUTER + spec.replace("vhost: b.example", "vhost: b.example, aliasSpaces: true"))
    assert any("aliasSpaces is only valid with mode: ByHostname" in line for line in wrong)


def test_secrets_to_pull_images_with() -> None:
    spec = "spec: {pod: {imagePullSecrets: [{name: a}, {name: b}]}}\n"
    (router,) = accept(ROUTER + spec).routers
    assert router.pod.pull_secrets == ("a", "b")
    twice = refuse(ROUTER + spec.replace("name: b", "name: a"))
    assert twice == ["m.yaml:4: Router/mesh spec.pod.imagePullSecrets[1].name: 'a' duplicates item [0]"]


def test_an_address() -> None:
    spec = "spec: {routerRef: {name: mesh}, pattern: 'a.*.#', distribution: multicast, waypoint: true, priority: 7}\n"
    (mesh,) = accept(ROUTER + "spec: {}\n---\n" + ADDRESS + spec).meshes.values()
    (address,) = mesh.addresses
    assert (address.pattern, address.prefix, address.distribution) == ("a.*.#", None, "multicast")
    assert (address.waypoint, address.priority, address.ingress_phase) == (True, 7, None)


LINK = ROUTER + "spec: {}\n---\n" + ADDRESS.replace("Address", "AutoLink")


def test_what_refers_to_a_router_is_with_it() -> None:
    text = LINK + "spec: {routerRef: {name: mesh}, containerId: broker, address: q, direction: in}\n"
    (mesh,) = accept(text).meshes.values()
    assert [(link.address, link.container_id, link.deletion_policy) for link in mesh.autolinks] == [
        ("q", "broker", "Quiesce")
    ]
    bad = text.replace("containerId: broker", "containerId: broker, brokerRef: {name: b}")
    assert refuse(bad) == ["m.yaml:9: AutoLink/orders spec: give exactly one of brokerRef and containerId"]


def test_the_same_link_twice() -> None:
    text = LINK + "spec: {routerRef: {name: mesh}, containerId: broker, address: q, direction: in}\n"
    again = text + "---\n" + text.partition("---\n")[2].replace("orders", "other")
    assert refuse(again) == ["m.yaml:14: AutoLink/other spec.address: q is already used by AutoLink/orders"]


TERMS = "selector: 'a = 1', distributionMode: copy, capabilities: [queue], linkProperties: {priority: 5, of: x}"


def test_what_an_autolink_asks_of_the_broker() -> None:
    text = LINK + f"spec: {{routerRef: {{name: mesh}}, containerId: broker, address: q, direction: in, {TERMS}}}\n"
    (mesh,) = accept(text).meshes.values()
    (link,) = mesh.autolinks
    assert (link.selector, link.no_local, link.distribution_mode) == ("a = 1", False, "copy")
    assert (link.capabilities, link.link_properties) == (("queue",), (("of", "x"), ("priority", 5)))
    beside = text.partition("---\n")[2].replace("orders", "other").replace("a = 1", "a = 2")
    (mesh,) = accept(text + "---\n" + beside).meshes.values()
    assert len(mesh.autolinks) == 2


INCOMING = " spec: selector, noLocal and distributionMode are only for direction in"


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("direction: out, selector: x", INCOMING),
        ("direction: out, noLocal: true", INCOMING),
        ("direction: out, distributionMode: copy", INCOMING),
        ("direction: in, distributionMode: browse", ".distributionMode: must be one of move, copy (got 'browse')"),
        ("direction: in, selector: ''", ".selector: must be between 1 and 4096 characters long"),
        ("direction: in, capabilities: ['a b']", ".capabilities[0]: must match ^[!-~]+$ (got 'a b')"),
        ("direction: in, linkProperties: {a: [1]}", ".linkProperties.a: must be text or a whole number (got a list)"),
        (
            "direction: in, linkProperties: {qd.a: 1}",
            ".linkProperties: names must be printable ASCII, and must not start with qd.",
        ),
        (
            "direction: in, linkProperties: {" + ", ".join(f"a{n}: 1" for n in range(33)) + "}",
            ".linkProperties: must be at most 32 entries (got 33)",
        ),
    ],
)  # fmt: skip
def test_what_an_autolink_cannot_ask_of_the_broker(field: str, problem: str) -> None:
    (found,) = refuse(LINK + f"spec: {{routerRef: {{name: mesh}}, containerId: b, address: q, {field}}}\n")
    assert problem.removeprefix(" spec") in found, found


SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: login, namespace: n}\n"


def test_a_secret() -> None:
    checked = accept(SECRET + "type: Opaque\ndata: {a: YQ==, b: YQ==}\nstringData: {b: bee}\n")
    assert checked.secrets == {Ref("n", "login"): {"a": b"a", "b": b"bee"}}
    assert checked.secrets_of("n") == {"login": {"a": b"a", "b": b"bee"}}
    assert checked.secrets_of("default") == {}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("data: {password: a secret}", "data.password: must be base64; put plain text in stringData"),
        ("stringData: {password: 12345}", "stringData.password: must be text (got 12345)"),
        ("Data: {}", "Data: unknown field; did you mean data?"),
    ],
)
def test_a_wrong_secret(fields: str, expected: str) -> None:
    assert refuse(SECRET + fields + "\n") == [f"m.yaml:4: Secret/login {expected}"]


SPEC_ERRORS = [
    ("size: 99", 5, "spec.size", "must be between 0 and 64 (got 99)"),
    ("size: -1", 5, "spec.size", "must be between 0 and 64 (got -1)"),
    ("size: three", 5, "spec.size", "must be a whole number (got 'three')"),
    ("size: true", 5, "spec.size", "must be a whole number (got true)"),
    ("size: 2.5", 5, "spec.size", "must be a whole number (got 2.5)"),
    ("sizes: 3", 5, "spec.sizes", "unknown field; did you mean size?"),
    ("nonsense: 3", 5, "spec.nonsense", "unknown field"),
    ("topology: full", 5, "spec.topology",
     "must be one of Auto, Full, Chordal (got 'full'); did you mean Full?"),
    ("role: leaf", 5, "spec.role", "must be one of interior, standalone, edge (got 'leaf')"),
    ("paused: 'yes'", 5, "spec.paused", "must be true or false (got 'yes')"),
    ("listeners: {}", 5, "spec.listeners", "must be a list (got a map)"),
    ("listeners:\n  - name: a", 6, "spec.listeners[0].port", "is required"),
    ("listeners:\n  - name: a\n    port: 70000", 7, "spec.listeners[0].port",
     "must be between 1 and 65535 (got 70000)"),
    ("listeners:\n  - name: A b\n    port: 7000", 6, "spec.listeners[0].name",
     "must match ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$ (got 'A b')"),
    ("listeners:\n  - {name: a, port: 7000}\n  - {name: a, port: 8000}", 7, "spec.listeners[1].name",
     "'a' duplicates item [0]"),
    ("listeners:\n  - {name: a, port: 7000}\n  - {name: b, port: 7000}", 5, "spec.listeners",
     "two listeners have the same port"),
    ("listeners:\n  - name: a\n    port: 7000\n    auth: plain", 8, "spec.listeners[0].auth",
     "auth plain would send passwords in clear text; set tls: true or use auth scram"),
    ("listeners:\n  - name: a\n    port: 7000\n    auth: mtls", 8, "spec.listeners[0].auth",
     "auth mtls requires client certificates; set tls: true"),
    ("listeners:\n  - name: a\n    port: 7000\n    certificate: {secretRef: {name: s}}", 8,
     "spec.listeners[0].certificate", "certificate requires TLS; set tls: true"),
    ("listeners:\n  - name: a\n    port: 7000\n    tls: true\n    clientAuthorities: {secretRef: {name: s}}", 9,
     "spec.listeners[0].clientAuthorities", "clientAuthorities requires client certificates; set auth: mtls"),
    ("listeners:\n  - name: a\n    port: 7000\n    management: write", 8, "spec.listeners[0].management",
     "must be one of none, read (got 'write')"),
    ("listeners:\n  - name: a\n    port: 7000\n    tenancy: {}", 8, "spec.listeners[0].tenancy.mode", "is required"),
    ("listeners:\n  - name: a\n    port: 7000\n    tenancy: {mode: Fixed}", 8, "spec.listeners[0].tenancy.vhost",
     "vhost is required with mode: Fixed, and only valid there"),
    ("listeners:\n  - name: a\n    port: 7000\n    tenancy: {mode: ByHostname, vhost: x}", 8,
     "spec.listeners[0].tenancy.vhost", "vhost is required with mode: Fixed, and only valid there"),
    ("listeners:\n  - name: a\n    port: 7000\n    tenancy: {mode: Fixed, vhost: a/b}", 8,
     "spec.listeners[0].tenancy.vhost", "must match ^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$ (got 'a/b')"),
    ("listeners:\n  - name: a\n    port: 7000\n    tenancy: {mode: ByHostname}\n    routeAddress: jobs", 9,
     "spec.listeners[0].routeAddress",
     "routeAddress cannot be combined with tenancy: clients of all tenants would use the same broker addresses"),
    ("listeners:\n  - name: a\n    port: 7000\n    tls: true\n    certificate: {}", 9,
     "spec.listeners[0].certificate.secretRef", "is required"),
    ("drain:\n    timeoutSeconds: -5", 6, "spec.drain.timeoutSeconds", "must be between 0 and 3600 (got -5)"),
    ("pod: {labels: {a: 1}}", 5, "spec.pod.labels.a", "must be text (got 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "line", "path", "message"), SPEC_ERRORS, ids=[row[0][:30] for row in SPEC_ERRORS])
def test_a_wrong_field_of_a_router(field: str, line: int, path: str, message: str) -> None:
    assert refuse(ROUTER + f"spec:\n  {field}\n") == [f"m.yaml:{line}: Router/mesh {path}: {message}"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{routerRef: {name: mesh}}", "spec: give exactly one of prefix and pattern"),
        ("{routerRef: {name: mesh}, prefix: a, pattern: b}", "spec: give exactly one of prefix and pattern"),
        ("{routerRef: {name: mesh}, prefix: ''}", "spec.prefix: must be between 1 and 1024 characters long"),
        ("{prefix: a}", "spec.routerRef: is required"),
        ("{routerRef: {name: other}, prefix: a}", "spec.routerRef.name: there is no Router other in namespace default"),
        ("{routerRef: {name: mesh}, prefix: a, waypoint: true, enableFallback: true}",
         "spec: a waypoint cannot have a fallback"),
        ("{routerRef: {name: mesh}, prefix: a, distribution: closest, exclusive: true}",
         "spec: exclusive needs distribution balanced"),
        ("{routerRef: {name: mesh}, prefix: a, distribution: multicast, exclusive: true}",
         "spec: exclusive needs distribution balanced"),
        ("{routerRef: {name: mesh}, prefix: a, waypoint: true, exclusive: true}",
         "spec: exclusive cannot be combined with waypoint, ingressPhase or egressPhase"),
        ("{routerRef: {name: mesh}, prefix: a, distribution: closest, messageGroups: true}",
         "spec: messageGroups needs distribution balanced"),
        ("{routerRef: {name: mesh}, prefix: a, ingressPhase: 1, messageGroups: true}",
         "spec: messageGroups cannot be combined with waypoint, ingressPhase or egressPhase"),
        ("{routerRef: {name: mesh}, prefix: a, exclusive: true, messageGroups: true}",
         "spec: messageGroups cannot be combined with exclusive"),
        ("{routerRef: {name: mesh}, prefix: a, distribution: closest, concurrency: 8}",
         "spec: concurrency needs distribution balanced"),
        ("{routerRef: {name: mesh}, prefix: a, exclusive: true, concurrency: 8}",
         "spec: concurrency cannot be combined with exclusive"),
    ],
)  # fmt: skip
def test_a_wrong_address(spec: str, expected: str) -> None:
    found = refuse(ROUTER + "spec: {}\n---\n" + ADDRESS + f"spec: {spec}\n")
    assert found == [f"m.yaml:9: Address/orders {expected}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("just text", "m.yaml:1: is not a manifest: apiVersion, kind, metadata and spec are expected"),
        ("kind: Router\n", "m.yaml:1: apiVersion: is required"),
        (ROUTER.replace("Router", "Rooter"), "m.yaml:2: kind: unknown kind Rooter; did you mean Router?"),
        (ROUTER.replace("Router", "Pizza"),
         "m.yaml:2: kind: unknown kind Pizza; known are Address, AutoLink, Broker, Exchange, LinkRoute, Router, "
         "RouterLink, Secret, VhostPolicy"),
        ("apiVersion: v1\nkind: Pod\n",
         "m.yaml:2: kind: Pod of v1 is not a Waymesh resource; remove it from these files"),
        (ROUTER.replace("v1alpha1", "v1"),
         "m.yaml:1: Router/mesh apiVersion: must be waymesh.io/v1alpha1 for a Router (got waymesh.io/v1)"),
        (ROUTER, "m.yaml:1: Router/mesh spec: is required"),
        (ROUTER.replace("name: mesh", "name: My_Mesh") + "spec: {}",
         "m.yaml:3: Router/My_Mesh metadata.name: must be at most 50 of a-z, 0-9 and -, beginning with a letter "
         "(got 'My_Mesh')"),
        (ROUTER.replace("{name: mesh}", "{}") + "spec: {}", "m.yaml:3: Router metadata.name: is required"),
        (ROUTER.replace("{name: mesh}", "{name: 5}") + "spec: {}",
         "m.yaml:3: Router metadata.name: must be text (got 5)"),
        (ROUTER.replace("metadata: {name: mesh}\n", "") + "spec: {}", "m.yaml:1: Router metadata.name: is required"),
        (ROUTER + "spec: {size: 1\nbad", "m.yaml:5: not valid YAML: while parsing a flow mapping, expected ',' or '}', "
         "but got '<stream end>'"),
        (ROUTER + "spec:\n\tsize: 1",
         "m.yaml:5: not valid YAML: while scanning for the next token, found character '\\t' "
         "that cannot start any token"),
        (ROUTER + "spec:\n  size: 1\n  size: 2\n", "m.yaml:6: spec.size: is given twice (first in line 5)"),
        ("a: &a [*a]\n", "m.yaml:1: not valid YAML: nested too deeply, or an alias of itself"),
        (ROUTER + "spec: {}\n5: 6\n", "m.yaml:5: the name of a field must be text, not 5"),
    ],
)  # fmt: skip
def test_a_document_that_is_no_good_manifest(text: str, expected: str) -> None:
    assert refuse(text) == [expected]


def test_everything_wrong_is_told_at_once() -> None:
    text = (
        ROUTER + "spec: {size: 99, topology: Ring, listeners: [{name: a, port: 0}]}\n---\n" + ADDRESS + "spec: {x: 1}\n"
    )
    assert len(refuse(text)) == 5


def test_the_same_name_twice() -> None:
    text = ROUTER + "spec: {}\n---\n" + ROUTER + "spec: {}\n"
    assert refuse(text) == ["m.yaml:8: Router/mesh metadata.name: duplicate Router of this name, first in m.yaml:3"]
    elsewhere = ROUTER.replace("name: mesh", "name: mesh, namespace: other")
    assert len(accept(ROUTER + "spec: {}\n---\n" + elsewhere + "spec: {}\n").routers) == 2


def test_two_addresses_with_the_same_match() -> None:
    one = "spec: {routerRef: {name: mesh}, prefix: a}\n---\n"
    text = ROUTER + "spec: {}\n---\n" + ADDRESS + one + ADDRESS.replace("orders", "sales") + one
    assert refuse(text) == ["m.yaml:14: Address/sales spec.prefix: a is already used by Address/orders"]


def test_a_role_cannot_change() -> None:
    before = accept(ROUTER + "spec: {role: interior}\n")
    assert accept(ROUTER + "spec: {role: interior, size: 2}\n", before).routers[0].size == 2
    assert refuse(ROUTER + "spec: {role: standalone}\n", before) == [
        "m.yaml:4: Router/mesh spec.role: role cannot be changed once the Router exists; create a new Router"
    ]


def test_lists_anchors_merges_nulls_and_dates_are_read_as_kubernetes_does() -> None:
    text = textwrap.dedent("""
        apiVersion: v1
        kind: List
        items:
        - apiVersion: waymesh.io/v1alpha1
          kind: Router
          metadata: {name: mesh, labels: &labels {since: 2024-01-01}}
          spec: {size: 2, tls: }
        - apiVersion: waymesh.io/v1alpha1
          kind: Router
          metadata: {name: other, labels: {<<: *labels, since: x}}
          spec: {size: 65}
        """)
    assert refuse(text) == ["m.yaml:12: Router/other spec.size: must be between 0 and 64 (got 65)"]
    assert len(accept(text.replace("65", "64")).routers) == 2


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(ROUTER + "spec: {}\n")
    (tmp_path / "a.yaml").write_text("# nothing\n")
    (tmp_path / "notes.txt").write_text("not read")
    documents, problems = read_files([tmp_path, tmp_path / "b.yml"])
    assert (len(documents), problems) == (1, [])
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\xfa")
    _, problems = read_files([tmp_path, tmp_path / "missing.yaml"])
    assert [str(p) for p in problems] == [
        f"{tmp_path}/c.yaml: is not UTF-8 text",
        f"{tmp_path}/missing.yaml: cannot be read: No such file or directory",
    ]


def test_files_without_any_manifest(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("---\n")
    assert [str(p) for p in read_files([tmp_path / "a.yaml"])[1]] == [f"{tmp_path}/a.yaml: holds no manifest"]
    (tmp_path / "empty").mkdir()
    expected = f"{tmp_path}/empty: no *.yaml, *.yml or *.json file in this folder"
    assert [str(p) for p in read_files([tmp_path / "empty"])[1]] == [expected]


def test_surrogates_of_json() -> None:
    documents, problems = parse_text(r'{"a": "\ud83d\ude00", "\ud83d\ude00": 1}', "m.json")
    assert (documents[0].data, problems) == ({"a": "\N{GRINNING FACE}", "\N{GRINNING FACE}": 1}, [])
    for half in (r'{"a": "\ud83d"}', r'{"\ud83d": 1}'):
        documents, problems = parse_text(half, "m.json")
        assert documents == []
        assert [(problem.line, "unexpected end of data" in problem.message) for problem in problems] == [(1, True)]


def test_lists_that_are_nested_too_deeply_for_the_parser_are_an_error() -> None:
    documents, problems = parse_text("[" * 5000 + "]" * 5000, "m.yaml")
    assert documents == []
    assert [str(problem) for problem in problems] == ["m.yaml: not valid YAML: nested too deeply"]


def test_aliases_that_stand_for_billions_of_values_are_an_error() -> None:
    lines = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
    documents, problems = parse_text("\n".join(["l0: &l0 [x]", *lines]), "m.yaml")
    assert documents == []
    assert [problem.message for problem in problems] == ["not valid YAML: more than 500,000 values in one document"]
