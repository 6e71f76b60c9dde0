"""A relay of packets, as a kernel without netem needs it: late, lost and out of order, on a TUN device.

It needs a network namespace of its own. What is sent to `host(n)` comes back, with its two addresses exchanged, to the
listener of the same port on `HERE`: so each n is a way of its own between two programs of this namespace.
"""

from __future__ import annotations

import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import subprocess
import threading
import time
from dataclasses import dataclass

DEVICE = "chaos0"
NETWORK = "10.99.0"
HERE = f"{NETWORK}.1"
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PACKET = 65536
LOOK_S = 0.2


def host(number: int) -> str:
    """The address of a way; numbers from 2 on."""
    return f"{NETWORK}.{number}"


@dataclass(slots=True)
class Way:
    """What happens to the packets of a way. `jitter_s`: up to so much more delay, at random, which changes the order;
    `loss`: the share of those that are lost."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0


class PacketRelay:
    """The device, and the thread that passes its packets on. `ways`: by their numbers."""

    def __init__(self, seed: int) -> None:
        self.ways: dict[int, Way] = {}
        self.passed = 0
        self.lost = 0
        self._rng = random.Random(f"packets/{seed}")
        self._file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self._file, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
        for words in (f"address add {HERE}/24 dev {DEVICE}", f"link set {DEVICE} up"):
            subprocess.run(["ip", *words.split()], check=True)
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="packets", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, and with it the device."""
        self._ending = True
        self._thread.join()
        os.close(self._file)

    def _run(self) -> None:
        late: list[tuple[float, int, bytes]] = []
        numbers = itertools.count()
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        while not self._ending:
            wait = min(LOOK_S, late[0][0] - time.monotonic()) if late else LOOK_S
            poll.poll(max(0.0, wait) * 1000)
            for packet in self._read():
                due = self._due(packet)
                if due is not None:
                    heapq.heappush(late, (due, next(numbers), packet))
            now = time.monotonic()
            while late and late[0][0] <= now:
                self._write(heapq.heappop(late)[2])

    def _read(self) -> list[bytes]:
        packets: list[bytes] = []
        while len(packets) < 64:
            try:
                packets.append(os.read(self._file, PACKET))
            except BlockingIOError:
                break
        return packets

    def _due(self, packet: bytes) -> float | None:
        """When it is passed on; None: never."""
        if packet[0] >> 4 != 4:
            return None
        way = self.ways.get(packet[19]) or Way()
        if way.loss and self._rng.random() < way.loss:
            self.lost += 1
            return None
        return time.monotonic() + way.delay_s + (self._rng.uniform(0, way.jitter_s) if way.jitter_s else 0.0)

    def _write(self, packet: bytes) -> None:
        """Checksums are sums: they stay right when two addresses are exchanged."""
        self.passed += 1
        try:
            os.write(self._file, packet[:12] + packet[16:20] + packet[12:16] + packet[20:])
        except BlockingIOError:
            self.lost += 1
