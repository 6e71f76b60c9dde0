"""Makes files of telemetry as nobody honest writes them: odd values, lines, compression and names."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from waymesh_schema import telemetry
from waymesh_schema.telemetry import KINDS, Field, FileName

BOOT_MS: Final = 1_769_731_200_000
"""2026-01-30, 00:00."""
HOURS: Final = 3
ROUTERS: Final = ("A", "B", "mesh-0")
EVENTS: Final = ("connection.down", "topology.change", "topology.converged", "policy.denied", "log.error")
WORDS: Final = {
    "event": ("open", "interval", "close", "attach", "detach", *EVENTS),
    "half": ("in", "out"),
    "outcome": ("accepted", "rejected", "released", "modified", "presettled", "dropped", "settled", "lost"),
    "dir": ("in", "out"),
    "type": ("endpoint", "inter-router"),
    "role": ("normal", "inter-router"),
    "from": ("active", "failed"),
    "to": ("active", "failed", "removed"),
    "severity": ("info", "warning", "error"),
}
NAMES: Final = ("A", "B", "mesh-0", "orders", "client-1", "client-2", "(others)")
INTEGERS: Final = tuple(
    str(sign * ((1 << bits) + more)).encode() for bits in (0, 15, 16, 31, 32, 53, 63, 64, 100) for sign in (1, -1)
    for more in (-1, 0, 1)
)  # fmt: skip
NUMBERS: Final = (b"0", b"-0", b"-0.0", b"0.1", b"1.0", b"-1.5", b"1e3", b"1E+2", b"1e-320", b"1e308", b"-1e308")
NO_NUMBERS: Final = (b"1e400", b"-1e400", b"NaN", b"Infinity", b"-Infinity", b"nan", b"01", b"+1", b"1.", b".5", b"0x1")
LONG_NUMBERS: Final = (
    b"9" * 400,
    b"9" * 5000,
    b"0." + b"1" * 5000,
    b"1" + b"0" * 300 + b".5",
    b"1e99999999999999999999",
)
TEXTS: Final = (
    b'""', b'" "', b'"\\u0000"', b'"\\n"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\xff\xfe"',
    b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\xf0\x9f\x98\x80"', b'"\xe2\x80\xae"', b'"a\x00b"', b'"\x01"',
    b'"\t"', b'"\x7f"',
    b'"</script><script>alert(1)</script>"', b'"{{ 7 * 7 }}"', b'"%s%n"', b'"../../etc/passwd"', b'"$a_{b}^c$"',
    b'"$\\\\frac{$"',
    b'"\\"', b'"\\u12"', b'"\\x"', b"'a'", b'"' + b"x" * 70_000 + b'"', b'"|"', b'"a|b|c"', b'"null"', b'"0"',
    b'"\\uFEFFa"',
)  # fmt: skip
OTHERS: Final = (
    b"null", b"true", b"false", b"[]", b"{}", b"[null]", b'["a",null]', b"[1]", b"[[]]", b'{"a":null}', b'{"a":1}',
    b'{"a":"b"}', b'{"A":-5,"B":9223372036854775807}', b'{"":0}', b'{"a":{"b":1}}', b'{"a":1,"a":2}', b"nul", b"",
    b'{"delivery":null,"nonsense":3}', b'{"delivery":5,"link":9007199254740993}', b'{"duration_us":"x"}',
    b'{"duration_us":"1e9"}', b'{"role":"inter-router","error":null}', b'{"duration_us":null,"change_id":"1"}',
    b'{"\\ud800":1}', b'{"\xff":"a"}', b"[" * 900 + b"]" * 900, b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b'{"role":"inter-router","error":"gone"}',
)  # fmt: skip
PREFIXES: Final = ("%00", "%ff", "%2F..", "%", "a b", "#", "?x", "*", "[a]", "{a,b}", "%0A")
DAYS: Final = ("2026-02-30", "0000-00-00", "0001-01-01", "9999-12-31", "2026-13-45", "1969-12-31")
SPLICES: Final = (
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\x00",
    b"\xff",
    b"null",
    b"-",
    b"\r",
    b" ",
    b"9" * 30,
)
BLANKS: Final = (b"", b" ", b"\t", b"\r", b"  \r", b"\x0b", b"\x0c", b"\xc2\xa0")
LINES: Final = (
    b"{}", b"[]", b"null", b"1", b'"x"', b"{", b"}", b"{}{}", b"\xef\xbb\xbf{}", b"\x00",
    b"[" * 100_000, b'{"a":' * 40_000,
    b"x" * (1 << 20), b'{"' + b"k" * (1 << 20) + b'":1}', b"\xff\xfe{\x00}\x00", b"9" * 100_000, b"//", b"{'a':1}",
)  # fmt: skip


@dataclass(slots=True)
class Made:
    """A file: its bytes, and what must be found in it."""

    packed: bytes
    # The `seq` of its lines that nothing was done to.
    good: list[int] = field(default_factory=list)
    # Its lines that are not blank; None if what can be read of it is not known.
    lines: int | None = None


class Maker:
    """The hostile files of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def plain(self, each: Field, seq: int, router: str) -> bytes:
        """A value as a router might write it."""
        rng = self.rng
        own = {"v": 1, "mesh": "m", "router": router, "boot": BOOT_MS, "seq": seq, "ts": BOOT_MS * 1000 + seq * 1000}
        if each.name in own:
            return json.dumps(own[each.name]).encode()
        if each.name == "weight":
            return rng.choice((b"1.0", b"100.0", b"2"))
        makers: dict[str, Callable[[], object]] = {
            telemetry.TEXT: lambda: rng.choice(WORDS.get(each.name, NAMES)),
            telemetry.FLAG: lambda: rng.random() < 0.5,
            telemetry.DOUBLE: lambda: rng.random() * 100,
            telemetry.TEXTS: lambda: rng.sample(NAMES, 2),
            telemetry.PAIRS: lambda: {"role": "inter-router", "duration_us": "500", "error": "gone"},
            telemetry.COUNTS: lambda: {rng.choice((*ROUTERS, *KINDS)): rng.randrange(100)},
        }
        value = makers.get(each.type, lambda: rng.randrange(1, 1000))()
        return b"null" if each.name == "container" and rng.random() < 0.1 else json.dumps(value).encode()

    def odd(self, each: Field) -> bytes:
        """A value of the right type at its edges, or of a wrong one."""
        near = {telemetry.TEXT: TEXTS, telemetry.DOUBLE: NUMBERS, telemetry.PAIRS: OTHERS, telemetry.COUNTS: OTHERS}
        every: Sequence[Sequence[bytes]] = (INTEGERS, NUMBERS, NO_NUMBERS, LONG_NUMBERS, TEXTS, OTHERS)
        if self.rng.random() < 0.6:
            return self.rng.choice(near.get(each.type, INTEGERS))
        return self.rng.choice(self.rng.choice(every))

    def line(self, kind: str, seq: int, router: str, odd: int, seen: list[bytes]) -> bytes:
        """A record with some odd values, doubled, missing or unknown fields; then, perhaps, with damaged bytes."""
        rng, fields = self.rng, KINDS[kind].fields
        values = [(each.name.encode(), self.plain(each, seq, router)) for each in fields]
        for _ in range(odd):
            at = rng.randrange(len(fields))
            act = rng.randrange(12)
            if act == 0:
                values.pop(at % len(values))
            elif act == 1:
                values.append((fields[at].name.encode(), self.odd(fields[at])))
            elif act == 2:
                values.append((b"unknown", self.odd(fields[at])))
            else:
                values[at % len(values)] = (values[at % len(values)][0], self.odd(fields[at]))
        line = b"{" + b",".join(b'"%b":%b' % pair for pair in values) + b"}"
        if odd and rng.random() < 0.15:
            line = self.damaged(line)
        if odd and rng.random() < 0.05:
            line = rng.choice((b"\xef\xbb\xbf" + line, line + line, line + b" x", line + b"\r", b" " + line, line[:-1]))
        if odd and rng.random() < 0.02:
            line = line.replace(b",", b",\n", 1)
        seen.append(line)
        return line

    def damaged(self, line: bytes) -> bytes:
        """The line with a few bytes replaced."""
        data = bytearray(line[:20_000])
        for _ in range(self.rng.randrange(1, 4)):
            at = self.rng.randrange(len(data))
            data[at : at + self.rng.randrange(4)] = self.rng.choice(SPLICES)
        return bytes(data).replace(b"\n", b"")

    def content(self, kind: str, router: str, first: int, count: int) -> tuple[bytes, list[int]]:
        """Lines, and the numbers of the good ones."""
        rng = self.rng
        share = rng.choice((0.0, 0.02, 0.3, 1.0))
        lines: list[bytes] = []
        good = []
        for seq in range(first, first + count):
            if rng.random() >= share:
                good.append(seq)
                self.line(kind, seq, router, 0, lines)
            elif rng.random() < 0.1:
                lines.append(rng.choice(rng.choice((LINES, BLANKS))))
            else:
                self.line(kind, seq, router, rng.choice((1, 1, 1, 2, 4)), lines)
        if lines and rng.random() < 0.02:
            lines.insert(rng.randrange(len(lines)), b"y" * rng.choice(((1 << 20) + 1, 8 << 20, 100 << 20)))
        end = rng.choice((b"\n", b"\n", b"\n", b"", b"\n\n", b"\r\n", b"\n\x00"))
        return b"\n".join(lines) + end, good

    def file(self, kind: str, router: str = "A", first: int = 1, count: int = 40) -> Made:
        """A file of about `count` lines."""
        rng = self.rng
        data, good = self.content(kind, router, first, count)
        if not data.endswith(b"\n"):
            good = [seq for seq in good if seq != first + count - 1]  # it may belong to what follows
        lines = sum(1 for line in data.split(b"\n") if line.strip())
        packed = self.packed(data)
        act = rng.randrange(14)
        if act < 8:
            return Made(packed, good, lines)
        if act == 8:
            return Made(packed[: rng.randrange(len(packed) + 1)])
        if act == 9:
            at = rng.randrange(len(packed))
            return Made(packed[:at] + bytes([packed[at] ^ 1 << rng.randrange(8)]) + packed[at + 1 :])
        if act == 10:
            return Made(packed + rng.choice((b"\x00", b"\x00" * 512, b"garbage", packed[:15], b"\x1f\x8b")), good)
        if act == 11:
            return Made(rng.choice((b"", b"\x1f", data, zlib.compress(data), rng.randbytes(100), b"\x1f\x8b\x08" * 50)))
        if act == 12 and rng.random() < 0.2:
            return Made(self.bomb(kind, router))
        return Made(gzip.compress(b"") * rng.choice((1, 100, 20_000)) + packed, good, lines)

    def packed(self, data: bytes) -> bytes:
        """Compressed, in one member or many, with or without what a header may have."""
        rng = self.rng
        if rng.random() < 0.3:
            cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((1, 3, 50))))
            ends = [0, *cuts, len(data)]
            return b"".join(gzip.compress(data[a:b], rng.randrange(10)) for a, b in pairwise(ends))
        if rng.random() < 0.1:
            body = zlib.compressobj(1, zlib.DEFLATED, -15)
            deflated = body.compress(data) + body.flush(zlib.Z_FULL_FLUSH) + body.flush()
            head = b"\x1f\x8b\x08\x1c" + bytes(6) + b"\x05\x00extra" + b"name\x00" + b"comment\x00"
            return (
                head
                + deflated
                + zlib.crc32(data).to_bytes(4, "little")
                + (len(data) & 0xFFFFFFFF).to_bytes(4, "little")
            )
        return gzip.compress(data, rng.choice((0, 1, 1, 9)))

    def bomb(self, kind: str, router: str) -> bytes:
        """A little that unpacks to up to a gigabyte."""
        record = self.line(kind, 1, router, 0, []) + b"\n"
        least = b'{"router":"A","boot":1,"seq":1,"ts":1}\n'
        unit = self.rng.choice((b"\n", b"x\n", b"x", b"\x00", b"{}\n", b"[", b'{"a":', record, least)) * 1000
        body = zlib.compressobj(1, zlib.DEFLATED, 31)
        parts = [
            body.compress(unit * 1000) for _ in range(max(1, self.rng.choice((20, 300, 1000)) * 1000 // len(unit)))
        ]
        return b"".join(parts) + body.flush()

    def name(self, kind: str, hour: int, router: str, first: int, count: int) -> str:
        """The path of a file; of one in five it is odd."""
        moment = datetime.fromtimestamp(BOOT_MS // 1000 + hour * 3600, UTC)
        path = FileName(kind, moment.date().isoformat(), moment.hour, router, BOOT_MS, first, count).path
        if self.rng.random() < 0.8:
            return path
        folder, _, name = path.rpartition("/")
        day = self.rng.choice((*DAYS, "٢٠٢٦-٠١-٣٠"))
        return self.rng.choice(
            (
                f"{folder.replace(moment.date().isoformat(), day)}/{name}",
                f"{folder.replace('hr=', 'hr=9')}/{name}",
                f"{folder.replace(f'hr={moment.hour:02d}', 'hr=٠١')}/{name}",
                f"{folder}/{name.replace(str(BOOT_MS), self.rng.choice(('0', '9' * 19, '9' * 60, '٣')))}",
                f"{folder}/{name.replace(f'-{count}.', self.rng.choice(('-0.', f'-{10**18}.', '-' + '9' * 80 + '.')))}",
                f"{folder}/{name.replace(f'{first:012d}', self.rng.choice(('0' * 12, '9' * 19, '9' * 80)))}",
                f"{folder}/{self.rng.choice(PREFIXES)}{name}",
                f"{folder}/\udcff{name}",
                f"{folder}/.tmp-{name}",
                f"{folder}/{name.removesuffix('.gz')}",
                f"{folder}/a:b/{name}",
                f"v1/kind=nothing/{folder.split('/', 2)[2]}/{name}",
                f"elsewhere/{path}",
            )
        )
