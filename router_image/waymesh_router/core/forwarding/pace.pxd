cimport cython

@cython.final
cdef class Pace:
    cdef public long long room
    cdef public long long ahead
    cdef public unsigned int seen
    cdef double _since
    cdef long long _done
    cdef double _speed
    cdef list _changed
    cdef bint _listed
    cpdef touch(self, object lk)
    cpdef sent(self, object lk)
    cpdef accepted(self)
    cpdef look(self, double now)
    cpdef rest(self, double now)
