cimport cython
from waymesh_amqp.wire cimport Octets
from waymesh_router.core.counters cimport Counters
from waymesh_router.core.model cimport Address, Queued, RouterLink

@cython.final
cdef class Expiry:
    cdef object context
    cdef public double now
    cdef Counters counters
    cdef public Py_ssize_t left
    cdef public Py_ssize_t joined
    cdef public dict addresses
    cdef public dict links
    cdef public dict of_address
    cdef int begin(self, Queued q) except -1
    cdef read_times(self, Queued q)
    cdef read_more(self, Queued q)
    cdef bint is_whole(self, Queued q, Py_ssize_t end) noexcept
    cdef read_ttl(self, Queued q, Octets b, Py_ssize_t end, double now)
    cdef read_time(self, Queued q, Octets b, Py_ssize_t end)
    cdef bint is_over(self, Queued q) except -1
    cdef bytes aged(self, Queued q)
    cdef bint may_end(self) except -1
    cdef go_on_later(self, RouterLink out)
    cdef RouterLink take_link(self)
    cdef bint has_turn(self, Address address) except -1
    cdef count(self, Address address)
    cpdef next_turn(self)

cdef bint may_have(Octets b, Py_ssize_t p, Py_ssize_t end, int code, Py_ssize_t index) except -1
cdef Py_ssize_t nth_value(Octets b, Py_ssize_t p, Py_ssize_t end, Py_ssize_t index) except -1
