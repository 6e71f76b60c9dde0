cimport cython
from waymesh_router.core.forwarding.pace cimport Pace
from waymesh_router.core.forwarding.spread cimport Spread
from waymesh_router.core.model cimport Address, RouterLink, Target

@cython.final
cdef class Pacing:
    cdef Spread spread
    cdef public dict links
    cdef public list changed
    cdef public dict grown
    cpdef begin(self, RouterLink lk, int settle_mode)
    cpdef end(self, RouterLink lk)
    cpdef room_grew(self, Address address)
    cdef touch_grown(self)
    cpdef run(self)
    cpdef renew(self, RouterLink lk)
    cpdef Py_ssize_t wanted(self, RouterLink lk) except -1
    cpdef tick(self, double now)

cpdef Py_ssize_t room_of(Address address, long long most) except -1
cdef Py_ssize_t room_here(RouterLink out) except -1
cdef Py_ssize_t room_elsewhere(Target target) except -1
