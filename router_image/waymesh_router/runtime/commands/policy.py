"""Explains decisions of the access policy in configuration files. `waymesh policy check` runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from ipaddress import ip_address

from waymesh_router.boot import names_to_look_up
from waymesh_router.clients.policy_check import link_of
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.management.look_ups import KnownNames
from waymesh_router.policy.decide import Request, named_by_client
from waymesh_router.policy.explain import explain
from waymesh_router.policy.settings import Policy, SettingsError
from waymesh_router.policy.vhosts import parse_policy
from waymesh_router.runtime.policy.host_names import numeric_addresses
from waymesh_schema.config import ConfigError, read_config

ALLOWED, DENIED, ERROR = 0, 1, 2
"""Exit codes."""
NO_SECTION = "no policy section: checked as with enableVhostPolicy: yes"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the verdict and its reasons; returns the exit code."""
    options = _parser().parse_args(argv)
    try:
        policy = _policy(options.filename)
    except (ConfigError, SettingsError) as error:
        problems = error.problems if isinstance(error, ConfigError) else [error]
        sys.stderr.writelines(f"waymesh: {problem}\n" for problem in problems)
        return ERROR
    hostname = options.policy_vhost or named_by_client(options.hostname)
    request = Request(options.user, options.host, hostname, groups=tuple(options.token_group))
    found = explain(policy, request, link_of(options.attach, options.direction == "in"))
    lines = ["allowed" if found.allowed else "denied", *found.reasons]
    if policy.enabled and not options.policy_vhost and hostname != options.hostname:
        lines.insert(1, f"host name {options.hostname!r}: counts as none, because a client sends it (--policy-vhost)")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return ALLOWED if found.allowed else DENIED


def _policy(filenames: Sequence[str]) -> Policy:
    """The policy of the files. Files that only have vhosts, as in policyDir, are checked as if enforced."""
    entries = read_config(*filenames)
    (section,) = [entry for entry in entries if entry.type.name == "policy"]
    values = section.attributes if section.line else {**section.attributes, "enableVhostPolicy": True}
    if not section.line:
        sys.stderr.write(f"waymesh: {NO_SECTION}\n")
    vhosts = [entry.attributes for entry in entries if entry.type.name == "vhost"]
    known = KnownNames()
    with known.given(numeric_addresses(names_to_look_up(entries))):
        return parse_policy(values, vhosts, PatternTree[str], known.addresses)


def _numeric_address(text: str) -> str:
    """The address in its usual form; raises ArgumentTypeError."""
    try:
        return str(ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a numeric address, not {text!r}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="waymesh policy check", usage="%(prog)s [OPTIONS]")
    parser.add_argument("--filename", action="append", required=True)
    for name in ("user", "hostname", "attach"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--host", required=True, type=_numeric_address, metavar="ADDRESS")
    parser.add_argument("--policy-vhost", default="")
    parser.add_argument("--token-group", action="append", default=[])
    parser.add_argument("--direction", choices=("in", "out"), required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())
