"""The operation CHECK-POLICY: whether the policy in force allows a connection and a link, and which rule decides."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from waymesh_amqp.performatives import Attach, Terminus
from waymesh_amqp.sasl import ANONYMOUS_USER
from waymesh_router.clients.link_requests import link_request
from waymesh_router.management.errors import bad_request, not_found
from waymesh_router.management.tenant_view import has_vhost
from waymesh_router.policy.decide import Request, named_by_client
from waymesh_router.policy.enforcement import Enforcement
from waymesh_router.policy.explain import explain
from waymesh_router.policy.links import LinkRequest

NEEDED = ("host", "address", "direction")
ASKED = ("user", "host", "hostname", "policyVhost", "tokenGroups", "address", "direction")
"""Members of the body of a request."""
MAX_CHARACTERS = 500
"""Maximum length of a reason: it can list all addresses of a user group."""


class PolicyCheck:
    """Answers CHECK-POLICY by the policy in force, with the code that decides on clients. Counts and logs nothing."""

    def __init__(self, enforcement: Enforcement, router_id: str) -> None:
        self._enforcement = enforcement
        self._router_id = router_id

    def __call__(self, asked: Mapping[str, Any], tenant: str | None) -> dict[str, Any]:
        """`{allowed, reasons}`. A tenant asks about its own vhost alone, without rates, which it cannot read either.
        Raises ManagementError."""
        policy = self._enforcement.policy
        unknown = sorted(asked.keys() - set(ASKED))
        if unknown:
            raise bad_request(f"CHECK-POLICY: unknown: {', '.join(unknown)}; known are {', '.join(ASKED)}")
        direction = _text(asked, "direction")
        if direction not in ("in", "out"):
            raise bad_request("direction: must be in (the client receives) or out (it sends)")
        if "address" not in asked:
            raise bad_request('address: missing; "" is that of an anonymous sender')
        vhost = _text(asked, "policyVhost") or named_by_client(_text(asked, "hostname"))
        if tenant is not None:
            if vhost not in ("", tenant) or not has_vhost(policy, tenant):
                raise not_found("this client can only ask about its own vhost, and only if it has one for itself")
            vhost = tenant
        user = _text(asked, "user") or ANONYMOUS_USER
        request = Request(user, _host(asked), vhost, groups=_groups(asked))
        link = link_of(_text(asked, "address"), direction == "in", self._router_id)
        found = explain(policy, request, link, limits=tenant is None)
        return {"allowed": found.allowed, "reasons": [_short(reason) for reason in found.reasons]}


def link_of(address: str, receives: bool, router_id: str = "") -> LinkRequest:
    """The attach of a client. Its right to management is that of a listener, and none here."""
    source, target = Terminus(kind="source"), Terminus(kind="target")
    (source if receives else target).address = address
    attach = Attach(name="", handle=0, role=receives, source=source, target=target)
    return link_request(attach, router_id, management=False)


def _text(asked: Mapping[str, Any], name: str) -> str:
    value = asked.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_request(f"{name}: must be a string")
    return str(value)


def _host(asked: Mapping[str, Any]) -> str:
    """The address in its usual form."""
    text = _text(asked, "host")
    try:
        return str(ip_address(text))
    except ValueError:
        raise bad_request(f"host: must be a numeric address, not {text[:MAX_CHARACTERS]!r}") from None


def _groups(asked: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the groups in the user's token, from a list or a text with commas."""
    value = asked.get("tokenGroups") or ()
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise bad_request("tokenGroups: must be a list of strings")
    return tuple(name.strip() for name in names if name.strip())


def _short(reason: str) -> str:
    return reason if len(reason) <= MAX_CHARACTERS else f"{reason[:MAX_CHARACTERS]}…"
