cimport cython

@cython.final
cdef class OutcomeRanges:
    cdef readonly bint pending
    cdef readonly unsigned int first
    cdef readonly unsigned int last
    cdef list earlier
    cpdef add(self, unsigned int did)
    cpdef bint single(self) except -1
    cpdef list merged(self)
    cpdef clear(self)
