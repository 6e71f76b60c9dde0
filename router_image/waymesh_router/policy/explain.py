"""Explains which vhost, user group and rule decide on a client's connection and link."""

from __future__ import annotations

from dataclasses import dataclass

from waymesh_router.policy.decide import (
    Denied,
    Request,
    decide_connection,
    is_dry_run,
    rate_of_user,
    vhost_of,
)
from waymesh_router.policy.links import LinkRequest, decide_link, link_rules
from waymesh_router.policy.names import allowing
from waymesh_router.policy.settings import Group, Policy, Vhost
from waymesh_router.policy.statistics import OpenConnections
from waymesh_schema.rules import DEFAULT_GROUP


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict, and its reasons in the order in which they are found."""

    allowed: bool
    reasons: tuple[str, ...]


def explain(policy: Policy, request: Request, link: LinkRequest, limits: bool = True) -> Explanation:
    """Whether the client may connect, if no other connection is open, and attach the link, if it has no other one.
    `limits`: with the rates of new connections among the reasons."""
    verdict = decide_connection(policy, request, OpenConnections(), 0.0)
    vhost = vhost_of(policy, request.hostname) if policy.enabled else None
    reasons = [] if vhost is None else [f"vhost {vhost.hostname}: {_why_vhost(policy, vhost, request.hostname)}"]
    if isinstance(verdict, Denied):
        return Explanation(False, (*reasons, f"connection denied: {verdict.reason}"))
    if not policy.enabled:
        reasons.append("enableVhostPolicy is no: all users and addresses are allowed")
    if is_dry_run(policy, vhost):
        entity = "policy" if policy.dry_run or vhost is None else f"vhost {vhost.hostname}"
        reasons.insert(0, f"{entity}: dryRun is yes: denials are counted and logged, but not enforced")
    if verdict.would is not None:
        reasons.append(f"would deny connection: {verdict.would.reason}")
    group = verdict.group
    if group is None or vhost is None:
        return Explanation(True, tuple(reasons))
    reasons.append(f"group {group.name}: {_why_group(group, request)}")
    if verdict.would is None:
        reasons.append(f"remoteHosts allow {request.host}")
    if not is_dry_run(policy, vhost):  # a dry run does not change the right
        reasons.append(_why_management(group))
    reasons += _limits(vhost, group, request.user) if limits else []
    allowed, reason = _link(policy, group, request.user, link)
    if not allowed and is_dry_run(policy, vhost):
        return Explanation(True, (*reasons, reason.replace("link denied", "would deny link")))
    return Explanation(allowed, (*reasons, reason))


def _limits(vhost: Vhost, group: Group, user: str) -> list[str]:
    """The rates that apply to the user, and where each one is set."""
    found = []
    if vhost.connection_rate is not None:
        found.append(f"connectionRate {vhost.connection_rate}: of the vhost")
    attribute, rate = rate_of_user(vhost, group, user)
    if rate is not None:
        whose = f"of user {user!r} in the vhost" if attribute == "userConnectionRates" else "of the group or vhost"
        found.append(f"{attribute} {rate}: {whose}")
    if group.connection_rate_per_host is not None:
        found.append(f"connectionRatePerHost {group.connection_rate_per_host}: of the group or vhost")
    return found


def _why_vhost(policy: Policy, vhost: Vhost, hostname: str) -> str:
    if policy.vhosts.get(hostname) is vhost:
        return f"has the host name {hostname!r}" if vhost.hostname == hostname else f"has the alias {hostname!r}"
    pattern = policy.patterns.match(hostname) if policy.patterns is not None else None
    if pattern is not None:
        return f"its pattern {pattern!r} matches the host name {hostname!r}"
    return f"is the defaultVhost; no other has the host name {hostname!r}"


def _why_management(group: Group) -> str:
    if group.management is None:
        return "management: set by the listener"
    less = "" if group.management == "none" else ", or less if the listener says so"
    return f"management: {group.management}{less}"


def _why_group(group: Group, request: Request) -> str:
    if request.user in group.users:
        return f"lists user {request.user!r}"
    nobody = f"no group lists user {request.user!r}"
    return f"{nobody}; the token names it" if group.name != DEFAULT_GROUP else f"{nobody}; allowUnknownUser is yes"


def _link(policy: Policy, group: Group, user: str, link: LinkRequest) -> tuple[bool, str]:
    receives = link.receiver
    plain, patterns = (group.sources, group.source_patterns) if receives else (group.targets, group.target_patterns)
    name = "source" if receives else "target"
    attribute = f"{name}Pattern" if patterns else f"{name}s"
    rules = link_rules(policy, group, user)
    allowed = rules.sources if receives else rules.targets
    for address in link.addresses:
        if not allowed.allow(address):
            listed = ", ".join(plain or patterns)
            return False, f"link denied: {attribute} have no rule for {address!r}" + (f": {listed}" if listed else "")
    denied = decide_link(rules, link, 0, 0)
    if denied is not None:
        return False, f"link denied: {denied.reason}"
    if not link.addresses:
        return True, "allowAnonymousSender is yes" if link.anonymous else f"{attribute} allow all addresses"
    address = link.addresses[0]
    deciding = ", ".join(map(repr, allowing(plain, patterns, user, policy.tree, address)))
    return True, f"{attribute} allow {address!r}: {deciding}"
