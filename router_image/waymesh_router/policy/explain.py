"""Says which vhost, user group and rule decide on a client's connection and link."""

from __future__ import annotations

from dataclasses import dataclass

from waymesh_router.policy.decide import Denied, Request, decide_connection, sources_of, targets_of, vhost_of
from waymesh_router.policy.names import AllowedAddresses
from waymesh_router.policy.settings import Group, Policy, Vhost
from waymesh_router.policy.statistics import OpenConnections


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict, and its reasons in the order in which they are found."""

    allowed: bool
    reasons: tuple[str, ...]


def explain(policy: Policy, request: Request, address: str, receives: bool) -> Explanation:
    """Whether the client may connect, if no other connection is open, and receive from the address or send to it."""
    verdict = decide_connection(policy, request, OpenConnections())
    vhost = vhost_of(policy, request.hostname) if policy.enabled else None
    reasons = [] if vhost is None else [f"vhost {vhost.hostname}: {_why_vhost(policy, vhost, request.hostname)}"]
    if isinstance(verdict, Denied):
        return Explanation(False, (*reasons, f"connection denied: {verdict.reason}"))
    if verdict.group is None:
        return Explanation(True, ("enableVhostPolicy is no: all users and addresses are allowed",))
    reasons.append(f"group {verdict.group.name}: {_why_group(verdict.group, request.user)}")
    reasons.append(f"remoteHosts allow {request.host}")
    reasons.append(_why_management(verdict.group))
    allowed, reason = _link(policy, verdict.group, request.user, address, receives)
    return Explanation(allowed, (*reasons, reason))


def _why_vhost(policy: Policy, vhost: Vhost, hostname: str) -> str:
    if policy.vhosts.get(hostname) is vhost:
        return f"has the host name {hostname!r}" if vhost.hostname == hostname else f"has the alias {hostname!r}"
    pattern = policy.patterns.match(hostname) if policy.patterns is not None else None
    if pattern is not None:
        return f"its pattern {pattern!r} matches the host name {hostname!r}"
    return f"is the defaultVhost; no other has the host name {hostname!r}"


def _why_management(group: Group) -> str:
    if group.management is None:
        return "management: as the listener has it"
    less = "" if group.management == "none" else ", or less if the listener says so"
    return f"management: {group.management}{less}"


def _why_group(group: Group, user: str) -> str:
    return f"lists user {user!r}" if user in group.users else f"no group lists user {user!r}; allowUnknownUser is yes"


def _link(policy: Policy, group: Group, user: str, address: str, receives: bool) -> tuple[bool, str]:
    plain, patterns = (group.sources, group.source_patterns) if receives else (group.targets, group.target_patterns)
    name = "source" if receives else "target"
    attribute = f"{name}Pattern" if patterns else f"{name}s"
    if not (sources_of if receives else targets_of)(policy, group, user).allow(address):
        rules = ", ".join(plain or patterns)
        return False, f"link denied: {attribute} have no rule for {address!r}" + (f": {rules}" if rules else "")
    each = [(rule, AllowedAddresses((rule,), (), user, policy.tree)) for rule in plain]
    each += [(rule, AllowedAddresses((), (rule,), user, policy.tree)) for rule in patterns]
    deciding = ", ".join(repr(rule) for rule, alone in each if alone.allow(address))
    return True, f"{attribute} allow {address!r}: {deciding}"
