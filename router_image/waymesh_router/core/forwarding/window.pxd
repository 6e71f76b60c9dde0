cimport cython

@cython.final
cdef class Window:
    cdef public int concurrency
    cdef double first
    cdef public double limit
    cdef public double announced
    cdef public double least
    cdef double _base
    cdef double _more
    cdef double _calm
    cdef double _average
    cdef long long _count
    cdef double _kept
    cdef double _since
    cdef double _sum
    cdef double _settled_at
    cdef double _patience
    cdef double _before
    cdef public bint batches
    cdef bint _goes_on
    cdef long long _together
    cdef long long _singles
    cpdef bint full(self, long long outstanding) except -1
    cpdef settled(self, double now, double sent_at, long long outstanding)
    cdef _measure(self, double now, double sent_at, long long outstanding)
    cpdef bint look(self, double now, long long outstanding, double since, double usual) except -1
    cdef _after_stall(self)
    cdef _in_batches(self)

cpdef double enough_for(int concurrency) except -1.0
