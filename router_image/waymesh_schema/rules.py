"""Rules that concern several attributes of one entity, or the text within one; applied after the types are right."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from . import rates, token_rules
from .address_match import trimmed_match
from .components import parse_components
from .convert import names
from .errors import SchemaError
from .http_rules import http_site, http_without_amqp
from .loglevels import parse_levels
from .table_router import STANDARD_OUTPUTS
from .tenant_names import unfit

Values = dict[str, Any]
MAX_ID_BYTES = 127
"""Maximum length of a router id."""
DEFAULT_GROUP = "$default"
"""The user group of users without another one."""
ANY_USER = "*"


def apply_rules(entity: str, values: Values) -> None:
    """Check the values of one entity of that short type name; raises SchemaError for the first rule broken."""
    for rule in _RULES.get(entity, ()):
        rule(entity, values)


def apply_request_rules(entity: str, values: Values) -> None:
    """Check the same by the rules for requests, manifests and what the operator writes, which do not apply to files:
    what breaks them is safe there, and a warning (leniency.py). Raises SchemaError."""
    for rule in _REQUEST_RULES.get(entity, ()):
        rule(entity, values)


def _one_address(entity: str, values: Values) -> None:
    prefix, pattern = values["prefix"], values["pattern"]
    if prefix and pattern:
        raise SchemaError(entity, "pattern", "prefix and pattern exclude each other")
    if not prefix and not pattern:
        raise SchemaError(entity, "prefix", "one of prefix and pattern is required")
    name = "prefix" if prefix else "pattern"
    if not trimmed_match(values[name]):
        raise SchemaError(entity, name, f"{values[name]!r} has no words")


def _one_consumer(entity: str, values: Values) -> None:
    """Where one consumer gets all, or all of a group, the routers must know those of each other, and do only then."""
    for setting in ("exclusive", "messageGroups"):
        if not values[setting]:
            continue
        if values["distribution"] != "balanced":
            raise SchemaError(entity, setting, f"is not possible with distribution {values['distribution']}")
        for name in ("waypoint", "ingressPhase", "egressPhase"):
            if values[name]:
                raise SchemaError(entity, setting, f"is not possible with {name}")
    if values["exclusive"] and values["messageGroups"]:
        raise SchemaError(entity, "messageGroups", "is not possible with exclusive")


def _concurrency(entity: str, values: Values) -> None:
    """It counts where work goes to who is free first."""
    if values["concurrency"] is None:
        return
    if values["distribution"] != "balanced":
        raise SchemaError(entity, "concurrency", f"is not possible with distribution {values['distribution']}")
    if values["exclusive"]:
        raise SchemaError(entity, "concurrency", "is not possible with exclusive")


def _one_container(entity: str, values: Values) -> None:
    if values["connection"] and values["containerId"]:
        raise SchemaError(entity, "containerId", "Both connection and containerId cannot be specified")


def _incoming_only(entity: str, values: Values) -> None:
    """These attributes are for the source of a receiver."""
    for name in ("selector", "noLocal", "distributionMode"):
        if values[name] and values["direction"] != "in":
            raise SchemaError(entity, name, "is only for direction in")


def _capabilities(entity: str, values: Values) -> None:
    if not (values["capabilities"] or "").isascii():
        raise SchemaError(entity, "capabilities", "must be ASCII")


def _link_properties(entity: str, values: Values) -> None:
    for key, value in (values["linkProperties"] or {}).items():
        if not key or not key.isascii() or not key.isprintable():
            raise SchemaError(entity, "linkProperties", f"key {key!r} must be printable ASCII")
        if key.startswith("qd."):
            raise SchemaError(entity, "linkProperties", f"key {key!r} is reserved for the router")
        if not isinstance(value, (str, int)):
            raise SchemaError(entity, "linkProperties", f"{key} must be text, a whole number or a boolean")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise SchemaError(entity, "linkProperties", f"{key} must fit into 64 bits")


def _id_of_mesh(entity: str, values: Values) -> None:
    if values["id"] is None and values["mode"] != "standalone":
        raise SchemaError(entity, "id", f"is required in mode {values['mode']}")


def _router_id(entity: str, values: Values) -> None:
    identity = values["id"]
    if identity is None:
        return
    if not identity or re.search(r"\s", identity) or not identity.isprintable():
        raise SchemaError(entity, "id", f"AttributeError: must be printable text without blanks, not {identity!r}")
    if len(identity.encode()) > MAX_ID_BYTES:
        raise SchemaError(entity, "id", f"exceeds the maximum allowed length of {MAX_ID_BYTES} octets")


def _mechanism_names(entity: str, values: Values) -> None:
    """As in Qpid Dispatch, the case of the names does not matter."""
    if values["saslMechanisms"]:
        values["saslMechanisms"] = values["saslMechanisms"].upper()


def _levels(entity: str, values: Values) -> None:
    try:
        parse_levels(values["enable"])
    except ValueError as error:
        raise SchemaError(entity, "enable", str(error)) from None


def _rotation(entity: str, values: Values) -> None:
    output = values["outputFile"]
    if values["maxMegabytes"] is not None and (output is None or output in STANDARD_OUTPUTS):
        raise SchemaError(entity, "maxMegabytes", "is only for an outputFile of this entity that is a file")
    if values["keptFiles"] is not None and values["maxMegabytes"] is None:
        raise SchemaError(entity, "keptFiles", "needs maxMegabytes")


def _components(entity: str, values: Values) -> None:
    try:
        parse_components(values["messageLoggingComponents"])
    except ValueError as error:
        raise SchemaError(entity, "messageLoggingComponents", str(error)) from None


_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.IGNORECASE)
"""A host name, or `*.` and a host name."""


def _profiles_by_host(entity: str, values: Values) -> None:
    for host, profile in (values["sslProfilesByHost"] or {}).items():
        if not _HOST.fullmatch(host):
            reason = f"{host!r} is neither a host name nor `*.` and a host name"
            raise SchemaError(entity, "sslProfilesByHost", reason)
        if not isinstance(profile, str) or not profile:
            raise SchemaError(entity, "sslProfilesByHost", f"{host}: must be the name of an sslProfile")
    if values["sslProfilesByHost"] and not values["sslProfile"]:
        raise SchemaError(entity, "sslProfilesByHost", "needs an sslProfile for clients that ask for other hosts")


def _what_trust_needs(entity: str, values: Values) -> None:
    for name in ("crlFile", "peersOnly"):
        if values[name] and not values["caCertFile"]:
            raise SchemaError(entity, name, "needs caCertFile")


def _ciphers_that_act(entity: str, values: Values) -> None:
    """OpenSSL would drop names of TLS 1.3 silently, and choose the ciphers of TLS 1.3 by itself."""
    ciphers = values["ciphers"] or ""
    named = next((name for name in re.split(r"[:, ]", ciphers) if name.lstrip("!-+").startswith("TLS_")), None)
    if named:
        raise SchemaError(entity, "ciphers", f"{named}: ciphers of TLS 1.3 cannot be chosen")
    if ciphers and (values["protocols"] or "").split() == ["TLSv1.3"]:
        raise SchemaError(entity, "ciphers", "has no effect with protocols: TLSv1.3, whose ciphers cannot be chosen")


def _secret_passwords(entity: str, values: Values) -> None:
    alone = (values["saslMechanisms"] or "").split() == ["PLAIN"]
    if alone and not (values["sslProfile"] or values["allowInsecurePlain"]):
        raise SchemaError(entity, "saslMechanisms", "PLAIN needs an sslProfile, or allowInsecurePlain: yes")


def _no_credentials(entity: str, values: Values) -> None:
    """A password in a URL would be ignored, and be shown in rows and log lines. The error does not repeat it."""
    for name in ("host", "failoverUrls"):
        if "@" in (values[name] or ""):
            raise SchemaError(entity, name, "must not contain user or password; use saslUsername and saslPassword")


def _users_file(entity: str, values: Values) -> None:
    path = values["usersFile"]
    if path and not path.startswith("/"):
        raise SchemaError(entity, "usersFile", f"must be an absolute path, not {path!r}")


def _sasl_plugin(entity: str, values: Values) -> None:
    """Each mechanism has one provider: users unknown to it are not looked up elsewhere."""
    if values["saslPlugin"] and values["usersFile"]:
        raise SchemaError(entity, "usersFile", "is not possible with saslPlugin, whose service checks passwords")
    if values["saslPlugin"] and (values["saslMechanisms"] or "").split() == ["EXTERNAL"]:
        raise SchemaError(entity, "saslPlugin", "saslMechanisms: EXTERNAL is answered by the router itself")


def _auth_service(entity: str, values: Values) -> None:
    place = values["authService"]
    if "@" in (place or values["host"]):
        raise SchemaError(entity, "authService" if place else "host", "must not contain user or password")
    if bool(place) == bool(values["host"]):
        raise SchemaError(entity, "host", "one of host and authService is required, not both")
    host, colon, port = (place or "h:1").rpartition(":")
    if not (host and colon and port):
        raise SchemaError(entity, "authService", f"must be HOST:PORT, not {place!r}")


def _files_of_writers(entity: str, values: Values) -> None:
    if values["managementFiles"] and values["management"] in ("none", "read"):
        raise SchemaError(entity, "managementFiles", "needs management: write")


def _tenants(entity: str, values: Values) -> None:
    """Refuse settings with which a client could leave the address space of its vhost."""
    if not values["multiTenant"]:
        return
    if values["http"] and (values["metrics"] or not values["websockets"]):
        reason = "needs metrics: no and websockets: yes with multiTenant: metrics show the addresses of all tenants"
        raise SchemaError(entity, "http", reason)
    refused = {
        "role": values["role"] != "normal",
        "management": values["management"] == "write",
        "routeAddress": values["routeAddress"],
        "stripAnnotations": values["stripAnnotations"] in ("out", "no"),
    }
    for attribute, given in refused.items():
        if given:
            reason = f"cannot be {values[attribute]!r} with multiTenant: clients could leave the space of their vhost"
            raise SchemaError(entity, attribute, reason)
    vhost = values["policyVhost"]
    if vhost and (unfit_for := unfit(vhost)):
        raise SchemaError(entity, "policyVhost", f"cannot be {vhost!r} with multiTenant: {unfit_for}")


def _connector_port(entity: str, values: Values) -> None:
    if values["port"] == "0":
        raise SchemaError(entity, "port", "0 is for listeners only")


def _open_container_id(entity: str, values: Values) -> None:
    if values["openContainerId"] and values["role"] in ("inter-router", "edge"):
        raise SchemaError(entity, "openContainerId", f"cannot be set for role {values['role']}")


def _open_properties(entity: str, values: Values) -> None:
    if values["openProperties"] and values["role"] == "inter-router":
        raise SchemaError(entity, "openProperties", "cannot be set for role inter-router")


def _durable_names(entity: str, values: Values) -> None:
    if values["durableNames"] and values["role"] in ("inter-router", "edge"):
        raise SchemaError(entity, "durableNames", f"cannot be set for role {values['role']}")


def _strict_edges(entity: str, values: Values) -> None:
    if values["strictEdges"] and values["role"] != "edge":
        raise SchemaError(entity, "strictEdges", "is only for role edge")


def _vhost_of_clients(entity: str, values: Values) -> None:
    """Refuse a policy that would not be enforced."""
    routers = ("inter-router",) if entity == "listener" else ("inter-router", "edge")
    if values["policyVhost"] and values["role"] in routers:
        reason = f"cannot be set for role {values['role']}: policies apply to clients only"
        raise SchemaError(entity, "policyVhost", reason)


def _policy_dir(entity: str, values: Values) -> None:
    folder = values["policyDir"]
    if folder and not folder.startswith("/"):
        raise SchemaError(entity, "policyDir", f"must be an absolute path, not {folder!r}")


def _source_or_pattern(entity: str, values: Values) -> None:
    for plain, pattern in (("sources", "sourcePattern"), ("targets", "targetPattern")):
        if values[plain] and values[pattern]:
            raise SchemaError(entity, pattern, f"{plain} and {pattern} exclude each other")
        for rule in names(values[plain]):
            if "*" in rule[:-1]:
                reason = f"{rule!r}: * is only allowed at the end; {pattern} takes it elsewhere"
                raise SchemaError(entity, plain, reason)


def _frame_size(entity: str, values: Values) -> None:
    if 0 < (values["maxFrameSize"] or 0) < 512:
        raise SchemaError(entity, "maxFrameSize", f"must be at least 512, or 0, not {values['maxFrameSize']}")


def _user_groups(entity: str, values: Values) -> None:
    """A user is in one group at most; the group $default is for users without one."""
    groups, unknown = values["groups"], values["allowUnknownUser"]
    if unknown and DEFAULT_GROUP not in groups:
        raise SchemaError(entity, "allowUnknownUser", f"needs a group {DEFAULT_GROUP}")
    group_of: dict[str, str] = {}
    for group, settings in groups.items():
        where = f"groups.{group}.users"
        for user in names(settings["users"]):
            if user == ANY_USER and (group != DEFAULT_GROUP or not unknown):
                raise SchemaError(entity, where, f"* is only for the group {DEFAULT_GROUP}, with allowUnknownUser: yes")
            if group_of.setdefault(user, group) != group:
                raise SchemaError(entity, where, f"user {user!r} is also in group {group_of[user]}")


_REQUEST_RULES: Mapping[str, tuple[Callable[[str, Values], None], ...]] = {
    "router": (_id_of_mesh,),
    "listener": (_secret_passwords,),
}
_RULES: Mapping[str, tuple[Callable[[str, Values], None], ...]] = {
    "router": (_router_id,),
    "log": (_levels, _rotation),
    "router.config.address": (_one_address, _one_consumer, _concurrency),
    "router.config.linkRoute": (_one_address, _one_container),
    "router.config.autoLink": (_one_container, _incoming_only, _capabilities, _link_properties),
    "listener": (
        _mechanism_names,
        http_site,
        _open_container_id,
        _open_properties,
        _durable_names,
        _strict_edges,
        _no_credentials,
        http_without_amqp,
        rates.rates,
        rates.rate_of_clients,
        token_rules.listener,
        _users_file,
        _sasl_plugin,
        _files_of_writers,
        _tenants,
        _vhost_of_clients,
        _components,
        _profiles_by_host,
    ),
    "sslProfile": (_what_trust_needs, _ciphers_that_act),
    "connector": (
        _mechanism_names,
        _connector_port,
        _no_credentials,
        _open_container_id,
        _durable_names,
        _vhost_of_clients,
        _components,
    ),
    "tokenProfile": (token_rules.keys, token_rules.algorithms, token_rules.times),
    "authServicePlugin": (_auth_service,),
    "policy": (_policy_dir,),
    "vhost": (_user_groups, rates.rates, rates.rates_of_users),
    "vhostUserGroupSettings": (_source_or_pattern, _frame_size, rates.rates),
}
