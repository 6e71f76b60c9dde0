"""Options that the management tools share: where the router is and how to connect, by qdstat's names."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from waymesh_client.channel import Sasl, Tls
from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient

DEFAULT_BUS = "127.0.0.1:5672"


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to reach the router."""
    group = parser.add_argument_group("connection")
    group.add_argument("-b", "--bus", default=DEFAULT_BUS, metavar="URL", help="router to talk to (%(default)s)")
    group.add_argument("-t", "--timeout", type=_seconds, default=5.0, metavar="SECS", help="wait so long (%(default)s)")
    group.add_argument("--ssl-certificate", metavar="FILE", help="client certificate (PEM)")
    group.add_argument("--ssl-key", metavar="FILE", help="key of the client certificate (PEM)")
    group.add_argument("--ssl-trustfile", metavar="FILE", help="certificate authorities to trust (PEM)")
    group.add_argument("--ssl-password", metavar="PASSWORD", help="password of the key")
    group.add_argument("--ssl-password-file", metavar="FILE", help="file that holds the password of the key")
    group.add_argument(
        "--ssl-disable-peer-name-verify", action="store_true", help="accept a certificate of any name (insecure)"
    )
    group.add_argument("--sasl-mechanisms", metavar="NAMES", help="SASL mechanisms to allow")
    group.add_argument("--sasl-username", metavar="USER")
    group.add_argument("--sasl-password", metavar="PASSWORD")
    group.add_argument("--sasl-password-file", metavar="FILE")


def make_client(options: argparse.Namespace) -> ManagementClient:
    """A client, not connected yet, of the router that the options name. Raises ValueError or OSError for bad ones."""
    return ManagementClient(
        options.bus, router=options.router, timeout_s=options.timeout, tls=_tls(options), sasl=_sasl(options)
    )


def run_tool(
    parser: argparse.ArgumentParser, options: argparse.Namespace, work: Callable[[ManagementClient], None]
) -> int:
    """Connect, do the work, and turn errors into a line on stderr. Returns the exit status: 0, 1, or 2 for usage."""
    try:
        client = make_client(options)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    try:
        with client:
            work(client)
    except ClientError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    return 0


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def _tls(options: argparse.Namespace) -> Tls | None:
    if options.ssl_certificate is None and options.ssl_trustfile is None:
        return None
    return Tls(
        ca=options.ssl_trustfile,
        certificate=options.ssl_certificate,
        key=options.ssl_key,
        key_password=_password(options.ssl_password, options.ssl_password_file),
        verify_name=not options.ssl_disable_peer_name_verify,
    )


def _sasl(options: argparse.Namespace) -> Sasl:
    password = _password(options.sasl_password, options.sasl_password_file)
    return Sasl(options.sasl_mechanisms, options.sasl_username, password)


def _password(value: str | None, file: str | None) -> str | None:
    return value if file is None else Path(file).read_text().strip()
