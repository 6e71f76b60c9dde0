cimport cython
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_amqp.wire cimport Octets

@cython.final
cdef class Sections:
    cdef public Py_ssize_t head
    cdef public Py_ssize_t rest
    cdef public Py_ssize_t header_at
    cpdef bint scan(self, IncomingTransfer transfer) except -1
    cdef bint scan_all(self, IncomingTransfer transfer, int code) except -1
    cpdef Py_ssize_t needed(self, IncomingTransfer transfer) except -1
    cdef int priority(self, IncomingTransfer transfer) except -1
    cpdef Py_ssize_t find_to(self, IncomingTransfer transfer) except -3
    cpdef Py_ssize_t find_user_id(self, IncomingTransfer transfer) except -3
    cdef Py_ssize_t find_property(self, IncomingTransfer transfer, int index) except -3
cdef int section_code(Octets b, Py_ssize_t p, Py_ssize_t end) except -2
cdef int rare_code(Octets b, Py_ssize_t p, Py_ssize_t end) except -2
cdef Py_ssize_t value_at(Octets b, Py_ssize_t p) except -1
