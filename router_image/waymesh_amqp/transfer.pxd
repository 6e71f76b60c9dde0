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
    cdef public bytes state
    cdef public Py_ssize_t state_bytes
    cdef public Py_ssize_t rest_fields
    cdef Py_ssize_t tag_from
    cdef Py_ssize_t tag_to
    cdef Py_ssize_t rest_from
    cdef Py_ssize_t state_from
    cdef unsigned char layout[64]
    cdef Py_ssize_t layout_bytes
    cdef Py_ssize_t id_at
    cdef Py_ssize_t tag_at
    cdef Py_ssize_t rest_at
    cpdef bytes payload(self)
    cpdef bytes tag(self)
    cpdef bytes rest(self)
    cpdef hold(self, bytes data)
    cpdef read(self, Py_ssize_t p, Py_ssize_t end)
    cdef bint matches_last(self, Py_ssize_t p, Py_ssize_t end) noexcept
    cdef void remember(self) noexcept
    cdef parse(self, Py_ssize_t p, Py_ssize_t end)
    cdef Py_ssize_t read_rare(self, Py_ssize_t p, Py_ssize_t end, Py_ssize_t n) except -1
    cdef bint take_state(self, Session session) except -1
    cdef Py_ssize_t read_tag(self, Py_ssize_t p, Py_ssize_t end) except -1

cpdef IncomingTransfer whole_transfer(bytes payload, bint more)
cdef take_transfer(Session session, IncomingTransfer transfer, Py_ssize_t p, Py_ssize_t end)
cdef bint refuse_new_delivery(Link link, IncomingTransfer transfer) except -1
cdef bint exceeds_credit(Link link) except -1
