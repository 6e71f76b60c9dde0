"""Information of the kernel about a TCP connection."""

from __future__ import annotations

import socket
import struct

from waymesh_router.runtime.tls.sockets import Transport

_SEGMENTS_AT = 152
"""Offset of `tcpi_data_segs_in` in `struct tcp_info` (linux/tcp.h); older kernels return a shorter structure."""
_COUNT = struct.Struct("=I")


def data_segments_in(sock: Transport) -> int:
    """TCP data segments received so far, including out-of-order ones; 0 if unknown."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None:
        return 0
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, option, _SEGMENTS_AT + _COUNT.size)
    except OSError:  # not TCP, or closed meanwhile
        return 0
    return int(_COUNT.unpack_from(info, _SEGMENTS_AT)[0]) if len(info) >= _SEGMENTS_AT + _COUNT.size else 0
