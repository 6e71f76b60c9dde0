cimport cython
cdef class TlsSocket
from waymesh_amqp.connection cimport Connection
from waymesh_router.runtime.transport.receive_buffer cimport ReceiveBuffer

cdef class TlsSocket:
    cdef object _socket
    cdef int _fd
    cdef bint _begun
    cdef bint _shaken
    cdef object _in
    cdef object _out
    cdef object _tls
    cdef public object user
    cdef object _inner
    cdef int _length
    cdef int _seen
    cdef Py_ssize_t _left
    cdef int _complete
    cdef int _without_data
    cdef bytes _unsent
    cdef Py_ssize_t _offered
    cdef readonly bint more
    cdef public bytes held
    cdef object _error
    cdef bint _ended
    cdef Py_ssize_t _data
    cdef Py_ssize_t _next(
        self, const unsigned char[::1] octets, Py_ssize_t at, Py_ssize_t end, int most, Py_ssize_t room
    ) except -1
    cpdef do_handshake(self)
    cdef int _feed(self, int most) except -1
    cdef _keep_rest(self)
    cpdef Py_ssize_t receive(self, ReceiveBuffer buffer, Py_ssize_t start, Py_ssize_t most) except? -2
    cdef Py_ssize_t decrypt(self, ReceiveBuffer buffer, Py_ssize_t start, Py_ssize_t at, Py_ssize_t end) except? -2
    cdef int _read_data(self, object view, Py_ssize_t at, int records) except -1
    cpdef Py_ssize_t encrypt(self, Connection conn, Py_ssize_t size, int together) except? -2
    cdef bint _write(self, object parts) except -1
