cimport cython
from waymesh_router.core.model cimport Address, RouterConnection, RouterLink

@cython.final
cdef class StreamLinks:
    cdef object context
    cdef object links
    cdef readonly dict users
    cdef dict idle
    cdef double now
    cdef object unneeded
    cdef RouterLink find(self, RouterLink lk, RouterConnection conn, Address address)
    cdef RouterLink open(self, RouterLink lk, RouterConnection conn, Address address)
    cdef RouterLink attach(self, RouterConnection conn)
    cpdef answered(self, RouterLink link, answer)
    cdef lost(self, RouterLink link)
    cdef bint has_streams(self, RouterLink lk) except -1
    cpdef tick(self, double now)
    cpdef long end_unneeded(self, RouterLink link) except -1
