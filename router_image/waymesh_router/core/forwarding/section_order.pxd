cimport cython
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_amqp.wire cimport Octets
from waymesh_router.core.forwarding.sections cimport Sections
from waymesh_router.core.model cimport RouterLink

@cython.final
cdef class SectionOrder:
    cdef int last
    cdef int values
    cdef long long left
    cdef bytes part
    cdef public bytes user
    cpdef begin(self)
    cpdef bint take(self, IncomingTransfer transfer) except -1
    cdef Py_ssize_t walk(self, Octets b, Py_ssize_t p, Py_ssize_t end) except -2
    cdef Py_ssize_t section(self, Octets b, Py_ssize_t p, Py_ssize_t end) except -2
    cdef bint follows(self, int code) except -1
    cdef Py_ssize_t value(self, Octets b, Py_ssize_t p, Py_ssize_t end) except -2

cpdef bint is_usual(RouterLink lk, Sections sections, IncomingTransfer transfer) except -1
cdef bint goes_on_in_order(RouterLink lk, IncomingTransfer transfer) except -1
