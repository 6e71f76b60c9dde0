"""TLS on a non-blocking socket, with limits for the work that a peer can cause in one turn of the event loop.

Compiled, reads and writes of an AMQP connection create no Python objects but the pieces that OpenSSL takes and returns.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cython

if cython.compiled:
    from cython.cimports.waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer, read_once
else:
    from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer, read_once

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_router.runtime.transport.tls_threads import MovingTlsIO

HEADER = cython.declare(cython.int, 5)
"""Bytes of a record's header: type, version, and length of the rest."""
MAX_LENGTH = cython.declare(cython.int, 18432)
"""Maximum length of a record after its header, in TLS 1.2; OpenSSL refuses longer ones."""
DATA_BYTES = cython.declare(cython.int, 16384)
"""Maximum number of bytes of data in a record."""
MAX_RECORD = cython.declare(cython.Py_ssize_t, 18437)
"""Maximum size of a record. Received bytes stand so far behind the data of earlier ones, see `TlsSocket.decrypt`."""
FED_BYTES = cython.declare(cython.Py_ssize_t, 16896)
"""OpenSSL gets records together up to this size, or a larger one alone: its buffer never shrinks, so that an idle
connection would keep a larger one. A record of TLS 1.3 with the maximum of data is smaller."""
RECORDS_PER_TURN = cython.declare(cython.int, 256)
"""Maximum number of records in a turn: about 0.3 ms if they are small."""
RECORDS_PER_READ = cython.declare(cython.int, 64)
"""Maximum number of records without data in a turn: about 1 ms of key updates."""
MAX_WITHOUT_DATA = 1024
"""Maximum number of consecutive records without data: a normal peer seldom sends session tickets or key updates."""
MAX_UNSENT = 65536
"""Maximum number of unsent bytes that OpenSSL produced, for a peer that sends but does not read."""
NOTHING_NOW = cython.declare(cython.int, -1)
LentState = tuple[bytes, int, int, int, int]
"""Records that OpenSSL has not got, the place in the next one, and the number of records without data."""


class TlsSocket:
    """A TLS connection on a non-blocking socket.

    An `ssl.SSLSocket` handles all records without data that have arrived, and those that arrive meanwhile, in one read:
    a client that keeps sending key updates would block the router. Here OpenSSL reads from memory, and gets as many
    records as may be handled.

    Each read takes much from the socket. `more`: input is left for the next turn, which epoll does not report.
    """

    def __init__(self, context: ssl.SSLContext, sock: socket.socket, *, server: bool, host: str | None = None) -> None:
        """`host`: the server name that a client requests and verifies. Raises OSError."""
        self._socket = sock
        self._fd = sock.fileno()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server, server_hostname=host)
        self._inner: Any = self._tls._sslobj  # type: ignore[attr-defined]  # without a frame of Python for each record
        self.user: MovingTlsIO | None = None
        """What has lent OpenSSL's object to a thread."""
        self._length = 0  # the last two bytes of an incomplete header
        self._seen = 0  # bytes of an incomplete header
        self._left = 0  # bytes of the current record that have not arrived
        self._complete = 0  # complete records of the last `_next`
        self._without_data = 0  # complete records since the last data
        self._begun = server  # a client speaks first
        self._shaken = False
        self._unsent = b""
        self._offered = 0  # bytes of the caller in `_unsent`; the caller presents them again
        self.more = False
        self.held = b""
        """Received records that OpenSSL gets in the next turn."""
        self._error: OSError | None = None
        self._ended = False
        self._data = 0  # where the next data goes

    @property
    def tls(self) -> ssl.SSLObject:
        """OpenSSL's object; if a thread has it, it is taken back."""
        if self.user is not None:
            self.user.give_back()
        return self._tls

    # ---- the interface of sockets
    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        if self.user is not None:
            self.user.give_back()
        self._socket.close()

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        return self._socket.getsockopt(level, option, size)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._socket.setsockopt(level, option, value)

    def recv(self, size: int) -> bytes:
        """Data from at most `size` bytes of the socket, b"" at the end. Raises OSError, and SSLWantReadError, also if
        the records so far had no data; `more` tells whether to call it again in the next turn."""
        buffer = ReceiveBuffer(2 * MAX_RECORD + size + len(self.held))
        count = self.receive(buffer, 0, size)
        if count == NOTHING_NOW:
            raise ssl.SSLWantReadError
        return bytes(buffer.view[:count])

    def send(self, data: Any) -> int:
        """Write a record. Raises SSLWantWriteError if the socket is full: the same bytes must be presented again then,
        and more may follow."""
        if not self._offered:
            self._flush()
            self._offered = self.tls.write(data)
        self._flush()
        count, self._offered = self._offered, 0
        return count

    # ---- TLS
    def do_handshake(self) -> None:
        """Continue the handshake. Raises SSLWantReadError, SSLWantWriteError and OSError."""
        left: cython.int = RECORDS_PER_READ
        self.more = False
        if self._unsent:
            self._flush()
        while not self._shaken:
            if self._begun:
                left -= self._feed(left)
            self._begun = True
            try:
                self._inner.do_handshake()
                self._shaken = True
                self._keep_rest()
            except ssl.SSLWantReadError:
                self._flush()
                if not self.held:
                    raise
                if left <= 0:
                    self.more = True
                    raise
            except ssl.SSLError:
                self._answer()
                raise
        self._flush()

    def _feed(self, most: cython.int) -> cython.int:
        """Pass up to `most` received records of a handshake to OpenSSL; returns how many of them are complete. Raises
        SSLWantReadError and OSError."""
        data: bytes = self.held
        end: cython.Py_ssize_t
        if data:
            self.held = b""
        else:
            try:
                data = self._socket.recv(FED_BYTES)
            except BlockingIOError:
                raise ssl.SSLWantReadError from None
            if not data:
                self._in.write_eof()
                return 0
        end = self._next(data, 0, len(data), most, FED_BYTES)
        self._in.write(data if end == len(data) else data[:end])
        self.held = data[end:]
        return self._complete

    def _keep_rest(self) -> None:
        """After the handshake: keep the records behind it, which OpenSSL has not begun to read, for the connection."""
        if self._in.pending:
            self.held = self._in.read() + self.held
            self._seen = self._left = 0
        self.more = bool(self.held)

    def end(self) -> socket.socket:
        """Send close_notify, if the socket accepts it at once; returns the plain socket."""
        with contextlib.suppress(OSError, ValueError):
            self.tls.unwrap()
        with contextlib.suppress(OSError):  # the peer may have disconnected
            self._flush()
        return self._socket

    def _next(
        self,
        octets: cython.const[cython.uchar][::1],  # type: ignore[valid-type] # a memory view
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        most: cython.int,
        room: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """End of the next bytes of octets[at:end] that OpenSSL gets: at most `most` complete records, which `_complete`
        counts, and no more than `room` bytes if there are several. A record may come in parts.
        """
        begin: cython.Py_ssize_t = at
        length: cython.Py_ssize_t
        self._complete = 0
        while at < end and self._complete < most:
            if not self._left:
                if self._seen or end - at < HEADER:
                    self._length = (self._length << 8 | octets[at]) & 0xFFFF
                    self._seen += 1
                    at += 1
                    if self._seen < HEADER:
                        continue
                    self._seen = 0
                    length = self._length
                else:
                    length = octets[at + 3] << 8 | octets[at + 4]
                    if self._complete and at - begin + HEADER + length > room:
                        break
                    at += HEADER
                self._left = length if length <= MAX_LENGTH else 0  # else OpenSSL refuses it now
            length = self._left if self._left < end - at else end - at
            at += length
            self._left -= length
            if not self._left:
                self._complete += 1
        return at

    # ---- the interface of connections
    def receive(self, buffer: ReceiveBuffer, start: cython.Py_ssize_t, most: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read once, at most `most` bytes, and decrypt them into the buffer from `start` on. Returns the size of the
        data, 0 at the end, or NOTHING_NOW. Raises OSError. Records that are left over from before come first.
        """
        held: bytes = self.held
        at: cython.Py_ssize_t = start + MAX_RECORD
        count: cython.Py_ssize_t = len(held)
        if count:  # they fit: the data since then is shorter than its records
            buffer.view[at : at + count] = held
            self.held = b""
        elif not self.more:
            count = read_once(self._fd, buffer, at, most)
            if count <= 0:
                return count
        return self.decrypt(buffer, start, at, at + count)

    def decrypt(
        self, buffer: ReceiveBuffer, start: cython.Py_ssize_t, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Decrypt the records in bytes `at` to `end` of the buffer, and put their data from `start` on. Returns its
        size, 0 at the end of the data, or NOTHING_NOW. Raises OSError.

        `start` is at least MAX_RECORD less than `at`: data is shorter than its record, so it overwrites only bytes that
        OpenSSL has, also if it had most of the first record before.
        """
        view: memoryview = buffer.view
        into: cython.Py_ssize_t = start
        begin: cython.Py_ssize_t
        room: cython.Py_ssize_t = FED_BYTES - self._in.pending
        records: cython.int = RECORDS_PER_TURN
        empty: cython.int = RECORDS_PER_READ
        with_data: cython.int
        self.more = False
        while at < end and records > 0 and empty > 0 and not self._ended:
            begin = at
            at = self._next(buffer.octets, at, end, records if records < empty else empty, room)
            self._in.write(view[begin:at])
            if not self._complete:
                continue
            self._data = into
            with_data = self._read_data(view, at, self._complete)
            into = self._data
            records -= self._complete
            empty -= self._complete - with_data
            self._without_data = 0 if with_data else self._without_data + self._complete
            if self._out.pending:
                self._answer_later()
            if self._without_data > MAX_WITHOUT_DATA:
                raise OSError(errno.EPROTO, "too many TLS records without data")
            room = FED_BYTES
        if at < end and not self._ended:
            self.held = bytes(view[at:end])
            self.more = True
        if into > start:
            self.more = self.more or self._ended
            return into - start
        if self._error is not None:
            raise self._error
        return 0 if self._ended else NOTHING_NOW

    def _read_data(self, view: Any, at: cython.Py_ssize_t, records: cython.int) -> cython.int:
        """Read the data of the records that OpenSSL has into the view from `_data` to `at`, and move `_data` on.
        Returns the number of records with data.
        """
        count: cython.Py_ssize_t
        found: cython.int = 0
        try:
            while found < records and self._in.pending:
                count = self._inner.read(at - self._data, view[self._data : at])
                if count == 0:
                    self._ended = True  # close_notify
                    break
                self._data += count
                found += 1
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:  # the data of earlier records counts
            self._ended, self._error = True, error
        return found

    def encrypt(self, conn: Connection, size: cython.Py_ssize_t, together: cython.int) -> cython.Py_ssize_t:
        """Write the next `size` bytes of the connection's output, up to `together` records at once. Returns the number
        of bytes that the socket accepted; those of which it accepted only a part may not be overtaken. Raises OSError.
        """
        taken: cython.Py_ssize_t = self._offered
        begin: cython.Py_ssize_t
        part: cython.Py_ssize_t
        parts: list[bytes]
        if self._unsent and not self._write([]):
            return 0
        self._offered = 0
        while taken < size:
            begin = taken
            parts = []
            while taken < size and len(parts) < together:
                part = size - taken if size - taken < DATA_BYTES else DATA_BYTES
                try:
                    self._inner.write(conn.mem[conn.off + taken : conn.off + taken + part])
                except ssl.SSLWantReadError:  # the peer must answer first
                    conn.offered(taken + part)
                    if self._write(parts):
                        return taken
                    self._offered = taken - begin
                    return begin
                parts.append(self._out.read())
                taken += part
            if not self._write(parts):
                conn.offered(taken)
                self._offered = taken - begin
                return begin
        return taken

    def _write(self, parts: Sequence[bytes]) -> cython.bint:
        """Write what is unsent and `parts`; False if the socket is full."""
        count: cython.Py_ssize_t = 0
        if self._unsent:
            parts = [self._unsent, *parts]
        with contextlib.suppress(BlockingIOError):
            count = self._socket.send(parts[0]) if len(parts) == 1 else self._socket.sendmsg(parts)
        if count == sum(map(len, parts)):
            self._unsent = b""
            return True
        self._unsent = b"".join(parts)[count:]
        return False

    # ---- for a thread, see tls_threads.py
    def lend(self, user: MovingTlsIO) -> LentState | None:
        """Nothing is read or written here until `returned` with what this returns. None if not now."""
        if self._ended or self._unsent or self._offered or self._out.pending:
            return None
        self.user, held, self.held, self.more = user, self.held, b"", False
        return held, self._length, self._seen, self._left, self._without_data

    def returned(self, state: LentState, unsent: bytes, ended: bool, error: OSError | None) -> None:
        """Continue where the thread has stopped. `unsent`: what it encrypted; `error`: why the input ended."""
        self.user, self._unsent, self._ended, self._error = None, unsent, ended, error
        self.held, self._length, self._seen, self._left, self._without_data = state
        self.more = bool(self.held) or ended

    def flush_rest(self) -> bool:
        """Write what is unsent; False if the socket is full. Raises OSError."""
        return not self._unsent or bool(self._write([]))

    # ---- answers of OpenSSL
    def _answer_later(self) -> None:
        """Write OpenSSL's output like `_answer`; an error counts when the caller has handled the data before."""
        try:
            self._answer()
        except OSError as error:
            self._ended, self._error = True, error

    def _answer(self) -> None:
        """Write OpenSSL's output, as far as the socket accepts it now. Raises OSError if too much is unsent."""
        with contextlib.suppress(ssl.SSLWantWriteError):
            self._flush()
        if len(self._unsent) > MAX_UNSENT:
            raise OSError(errno.ENOBUFS, "the peer does not read TLS answers")

    def _flush(self) -> None:
        if self._out.pending:
            self._unsent += self._out.read()
        while self._unsent:
            try:
                count = self._socket.send(self._unsent)
            except BlockingIOError:
                raise ssl.SSLWantWriteError from None
            self._unsent = self._unsent[count:]


Transport = socket.socket | TlsSocket
"""The socket of a connection, plain or with TLS."""
