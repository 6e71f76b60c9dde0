"""What configuration files may say, but requests may not: settings of Qpid Dispatch that are read safely instead.

Each function replaces settings of one entity by settings that the rules of the schema accept, which are applied
afterwards. So nothing that the rules refuse, because it would let somebody in, can get past them here.
Source: decision "Files are read safely, with a warning".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from .convert import names

Values = dict[str, Any]
Given = Collection[str]
"""Names of the attributes that are in the file."""

OF_CYRUS = frozenset(
    ("CRAM-MD5", "DIGEST-MD5", "GS2-KRB5", "GSSAPI", "GSS-SPNEGO", "KERBEROS_V4", "LOGIN", "NTLM",
     "OTP", "PASSDSS-3DES-1", "SRP")
)  # fmt: skip
"""Mechanisms that the files of Qpid Dispatch may name, as Cyrus SASL has them, and that this router does not have."""
GROUP_KEYS: Mapping[str, str] = {
    "allowUnknownUser": "allowUnknownUser of the vhost applies",
    "connectionAllowDefault": "allowUnknownUser of the vhost applies",
    "maxConnPerHost": "maxConnectionsPerHost of the group and of the vhost apply",
    "maxConnPerUser": "maxConnectionsPerUser of the group and of the vhost apply",
    "maxConnections": "maxConnections of the vhost applies, and maxConnectionsPerUser and …PerHost of the group",
    "maxConnectionsPerRemoteHost": "maxConnectionsPerHost of the group and of the vhost apply",
}
"""Keys without effect that files have in the groups of vhosts, and which setting applies instead."""


LOGS_OF_OTHERS = frozenset(("CONFIG", "DISPATCH", "DISPLAYNAME", "HTTP_ADAPTOR", "PYTHON", "TCP_ADAPTOR"))
"""Modules of `log` sections of Qpid Dispatch, in any version, that this router does not have."""


def read_safely(entity: str, values: Values, given: Given) -> list[str]:
    """Replace settings in the values of an entity of that short type name; returns a warning for each replacement.

    `values`: all attributes, converted. To be called before `apply_rules`.
    """
    return [f"{entity} {text}" for reading in _READINGS.get(entity, ()) for text in reading(values, given)]


def without_effect_in_group(group: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The settings of a user group without the keys of `GROUP_KEYS`, and a warning for each of these."""
    kept = {name: value for name, value in settings.items() if name not in GROUP_KEYS}
    return kept, [
        f"vhost groups.{group}.{name}: has no effect: {GROUP_KEYS[name]}" for name in settings if name in GROUP_KEYS
    ]


def _annotations_of_tenants(values: Values, _given: Given) -> Iterator[str]:
    written = values["stripAnnotations"]
    if values["multiTenant"] and written in ("no", "out"):
        used = values["stripAnnotations"] = "both" if written == "out" else "in"
        yield (
            f"stripAnnotations: {used} is used instead of {written}: with the annotations of routers, tenants could "
            "leave the address space of their vhost"
        )


def _metrics_of_tenants(values: Values, _given: Given) -> Iterator[str]:
    if values["multiTenant"] and (values["http"] or values["httpRootDir"]) and values["metrics"]:
        values["metrics"] = False
        yield "metrics: are not served with multiTenant: they show the addresses of all tenants"


def _policy_for_routers(values: Values, _given: Given) -> Iterator[str]:
    if values["policyVhost"] and values["role"] == "inter-router":
        values["policyVhost"] = None
        yield "policyVhost: has no effect with role inter-router: policies apply to clients only"


def _policy_of_uplinks(values: Values, given: Given) -> Iterator[str]:
    yield from _policy_for_routers(values, given)
    if values["policyVhost"] and values["role"] == "edge":
        values["policyVhost"] = None
        yield "policyVhost: has no effect with role edge: policies apply to clients only"


def _no_folder(values: Values, _given: Given) -> Iterator[str]:
    folder = values["httpRootDir"]
    if folder and not folder.startswith("/"):
        values["httpRootDir"], values["http"] = None, True  # httpRootDir implies http
        yield f"httpRootDir: {folder!r} is not an absolute path: no files are served"


def _folder_of_vhosts(values: Values, _given: Given) -> Iterator[str]:
    """Without the vhosts, fewer rules would apply: a folder that does not exist is an error."""
    folder = values["policyDir"]
    if folder and not folder.startswith("/"):
        values["policyDir"] = os.path.abspath(folder)
        yield f"policyDir: {folder!r} is relative to the current directory: {values['policyDir']} is used"


def _redirects(values: Values, _given: Given) -> Iterator[str]:
    if values["allowRedirect"]:
        values["allowRedirect"] = False
        yield "allowRedirect: has no effect: redirects are not followed; list all hosts in failoverUrls"


def _random_id(values: Values, _given: Given) -> Iterator[str]:
    if values["id"] is None and values["mode"] != "standalone":
        yield (
            f"id: is not set in mode {values['mode']}: a random one is used, so each restart is a new router for the "
            "others; set an id"
        )


def _mechanisms_of_listeners(values: Values, _given: Given) -> Iterator[str]:
    if not values["saslPlugin"]:  # a service may have them
        yield from _without_cyrus(values)


def _mechanisms_of_connectors(values: Values, _given: Given) -> Iterator[str]:
    """The password is not shown to a peer to which the file does not show it."""
    kept = _known(values)
    verified = values["sslProfile"] and values["verifyHostname"]
    if "PLAIN" not in kept or verified:
        yield from _without_cyrus(values)


def _without_cyrus(values: Values) -> Iterator[str]:
    kept, left_out = _known(values), [name for name in _mechanisms(values) if name in OF_CYRUS]
    if kept and left_out:  # without a mechanism, all would be allowed
        values["saslMechanisms"] = " ".join(kept)
        yield f"saslMechanisms: {' '.join(left_out)}: not supported; left with {' '.join(kept)}"


def _known(values: Values) -> list[str]:
    return [name for name in _mechanisms(values) if name not in OF_CYRUS]


def _mechanisms(values: Values) -> list[str]:
    return (values["saslMechanisms"] or "").upper().split()


def _all_users(values: Values, given: Given) -> Iterator[str]:
    group = values["groups"].get("$default")
    if group is None or values["allowUnknownUser"] or "*" not in names(group["users"]):
        return
    if "allowUnknownUser" in given:
        group["users"] = ",".join(name for name in names(group["users"]) if name != "*")
        yield "groups.$default.users: * has no effect with allowUnknownUser: no"
    else:
        values["allowUnknownUser"] = True
        yield "groups.$default.users: * is taken as allowUnknownUser: yes"


def _old_versions(values: Values, _given: Given) -> Iterator[str]:
    versions = (values["protocols"] or "").split()
    old = [version for version in versions if version in ("TLSv1", "TLSv1.1")]
    if old and len(old) < len(versions):
        yield f"protocols: {' '.join(old)}: is insecure, and most TLS libraries do not use it; leave it out"


_READINGS: Mapping[str, tuple[Callable[[Values, Given], Iterator[str]], ...]] = {
    "router": (_random_id,),
    "listener": (
        _annotations_of_tenants,
        _no_folder,
        _metrics_of_tenants,
        _policy_for_routers,
        _mechanisms_of_listeners,
    ),
    "connector": (_redirects, _policy_of_uplinks, _mechanisms_of_connectors),
    "sslProfile": (_old_versions,),
    "policy": (_folder_of_vhosts,),
    "vhost": (_all_users,),
}
