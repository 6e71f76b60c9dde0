cimport cython

@cython.final
cdef class Speed:
    cdef public double each
    cdef double _since
    cdef double _gap
    cdef long long _group
    cpdef began(self, double now)
    cpdef settled(self, double now)
    cpdef took(self, double seconds)
    cdef _learn(self)
