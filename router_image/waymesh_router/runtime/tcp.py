"""What the kernel knows of a TCP connection."""

from __future__ import annotations

import socket
import struct

_SEGMENTS_AT = 152
"""Where `tcpi_data_segs_in` is in `struct tcp_info` (linux/tcp.h); older kernels give a shorter structure."""
_COUNT = struct.Struct("=I")


def data_segments_in(sock: socket.socket) -> int:
    """Segments with data that arrived so far, also those that wait for a lost segment before them; 0: not known."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None:
        return 0
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, option, _SEGMENTS_AT + _COUNT.size)
    except OSError:  # no TCP, or closed meanwhile
        return 0
    return int(_COUNT.unpack_from(info, _SEGMENTS_AT)[0]) if len(info) >= _SEGMENTS_AT + _COUNT.size else 0
