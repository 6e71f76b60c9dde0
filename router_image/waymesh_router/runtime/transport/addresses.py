"""Converts configured hosts and ports to socket addresses, and opens listening sockets."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from typing import Any

from waymesh_router.runtime.errors import HostError

WELL_KNOWN_PORTS = {"amqp": 5672, "amqps": 5671}
FAMILIES = {"IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}
BACKLOG = 1024

SocketAddress = tuple[socket.AddressFamily, tuple[Any, ...]]
"""Address family, and the argument of `bind` or `connect`."""


def port_number(entity: str, port: str | int) -> int:
    """The port number for a number or service name; 0 lets the system choose a port. Raises HostError."""
    text = str(port)
    if text in WELL_KNOWN_PORTS:
        return WELL_KNOWN_PORTS[text]
    if text.isascii() and text.isdigit():
        number = int(text)
        if number <= 65535:
            return number
        raise HostError(f"{entity}: port: {text} is greater than 65535")
    try:
        return socket.getservbyname(text, "tcp")
    except OSError:
        raise HostError(f"{entity}: port: unknown service {text!r}") from None


def family(attrs: Mapping[str, Any]) -> socket.AddressFamily:
    """`socketAddressFamily`; any family if it is not set."""
    return FAMILIES.get(str(attrs.get("socketAddressFamily") or ""), socket.AF_UNSPEC)


def numeric_address(host: str, port: int, wanted: socket.AddressFamily) -> SocketAddress | None:
    """The address if `host` is a literal IP address, None for a name that must be resolved."""
    literal = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        infos = socket.getaddrinfo(literal, port, wanted, socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (socket.gaierror, UnicodeError):
        return None
    return infos[0][0], infos[0][4]


def resolve(host: str | None, port: int, wanted: socket.AddressFamily, flags: int = 0) -> list[SocketAddress]:
    """All addresses of `host` (blocks during name resolution). Raises OSError."""
    try:
        infos = socket.getaddrinfo(host, port, wanted, socket.SOCK_STREAM, flags=flags)
    except UnicodeError:  # such as `a..b`: a label is empty or has more than 63 characters
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from None
    unique: dict[tuple[Any, ...], SocketAddress] = {info[4]: (info[0], info[4]) for info in infos}
    return list(unique.values())


def peer_text(address: tuple[Any, ...]) -> str:
    """`1.2.3.4:5555` or `::1:5555`, in the format of Dispatch."""
    return f"{address[0]}:{address[1]}"


def bound_sockets(entity: str, attrs: Mapping[str, Any]) -> list[socket.socket]:
    """Bound, non-blocking sockets for a listener: one for each address of its host.

    Raises HostError after closing all sockets.
    """
    host = str(attrs.get("host") or "")
    port = port_number(entity, attrs["port"])
    shown = peer_text((host or "*", port))
    try:
        found = numeric_address(host, port, family(attrs)) if host else None
        addresses = [found] if found else resolve(host or None, port, family(attrs), socket.AI_PASSIVE)
    except OSError as error:
        raise HostError(f"{entity}: host: {host}: {error.strerror}") from None
    sockets: list[socket.socket] = []
    problem: OSError | None = None
    for kind, address in addresses:
        if sockets and port == 0:  # the port that the system chose for the first address is used for all
            address = (address[0], sockets[0].getsockname()[1], *address[2:])
        try:
            sockets.append(_bind(kind, address))
        except OSError as error:
            if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) and len(addresses) > 1:
                problem = problem or error  # for example, a machine without IPv6
                continue
            _close_all(sockets)
            raise HostError(f"{entity}: cannot listen on {shown}: {_reason(error)}") from None
    if not sockets and problem:
        raise HostError(f"{entity}: cannot listen on {shown}: {_reason(problem)}")
    return sockets


def listen_on(entity: str, sockets: list[socket.socket]) -> None:
    """Listen on bound sockets. Raises HostError after closing them, if another socket listens on one of the ports."""
    for sock in sockets:
        try:
            sock.listen(BACKLOG)
        except OSError as error:
            shown = peer_text(sock.getsockname())
            _close_all(sockets)
            raise HostError(f"{entity}: cannot listen on {shown}: {_reason(error)}") from None


def _bind(kind: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(kind, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind == socket.AF_INET6:  # otherwise :: would also bind the IPv4 port, for which another socket is opened
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _close_all(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()
