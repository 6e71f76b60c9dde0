from waymesh_router.core.core cimport Core
from waymesh_router.core.forwarding.spread cimport Spread

cdef class DueWork:
    cdef Core _core
    cdef object _context
    cdef Spread _spread
    cdef object _mesh
    cdef dict _queries
    cdef dict _walks
    cdef dict _groups
    cdef list _paced
    cdef dict _grown
    cdef object _work
    cdef double _due
    cdef double _following
    cpdef double run(self, double now) except? -1
    cdef bint _waits(self) except -1
