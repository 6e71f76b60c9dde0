cimport cython
from waymesh_amqp.wire cimport Octets

@cython.final
cdef class IncomingFlow:
    cdef long long next_incoming_id
    cdef long long incoming_window
    cdef long long handle
    cdef long long delivery_count
    cdef long long link_credit
    cdef readonly long long available
    cdef readonly bint drain
    cdef readonly bint echo
    cdef readonly object properties
    cdef read(self, Octets b, Py_ssize_t p, Py_ssize_t end)
    cdef Py_ssize_t read_link_state(self, Octets b, Py_ssize_t p, Py_ssize_t end, Py_ssize_t n) except -1
