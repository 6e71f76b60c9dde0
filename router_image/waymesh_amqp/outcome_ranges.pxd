cimport cython

@cython.final
cdef class OutcomeRanges:
    cdef readonly bint pending
    cdef readonly unsigned int first
    cdef readonly unsigned int last
    cdef bytearray marks
    cdef unsigned int base
    cdef long long low
    cdef long long high
    cdef list far
    cpdef int add(self, unsigned int did) except -1
    cpdef bint single(self) noexcept
    cdef int put_aside(self) except -1
    cpdef bint take(self) except -1
    cdef bint take_marked(self) except -1
    cdef list sorted_ranges(self)
    cpdef clear(self)
