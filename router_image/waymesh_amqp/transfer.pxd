cimport cython
cdef class IncomingTransfer
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.wire cimport Octets

@cython.final
cdef class IncomingTransfer:
    cdef Octets data
    cdef object memory
    cdef public Py_ssize_t at
    cdef public Py_ssize_t start
    cdef public Py_ssize_t end
    cdef public bint first
    cdef public long long handle
    cdef public long long delivery_id
    cdef public long long tag_bytes
    cdef public long long message_format
    cdef public bint settled
    cdef public bint more
    cdef public bint resume
    cdef public bint aborted
    cdef public bint stateful
    cdef public bint transactional
    cdef unsigned char layout[64]
    cdef Py_ssize_t layout_bytes
    cdef Py_ssize_t id_at
    cdef Py_ssize_t tag_at
    cdef Py_ssize_t rest_at
    cpdef bytes payload(self)
    cpdef bytes state(self)
    cpdef hold(self, bytes data)
    cpdef read(self, Py_ssize_t p, Py_ssize_t end)
    cdef bint matches_last(self, Py_ssize_t p, Py_ssize_t end) noexcept
    cdef void remember(self) noexcept
    cdef parse(self, Py_ssize_t p, Py_ssize_t end)
    cdef read_rare(self, Py_ssize_t p, Py_ssize_t end, Py_ssize_t n)
    cdef Py_ssize_t read_tag(self, Py_ssize_t p, Py_ssize_t end) except -1

cpdef IncomingTransfer whole_transfer(bytes payload, bint more)
cdef long long number(Octets b, Py_ssize_t p, Py_ssize_t end) except -64
cdef take_transfer(Session session, IncomingTransfer transfer, Py_ssize_t p, Py_ssize_t end)
cdef bint refuse_new_delivery(Link link, IncomingTransfer transfer) except -1
