cimport cython

@cython.final
cdef class TimeOuts:
    cdef double deadline
    cdef double last_heard
    cdef long long heard_octets
    cdef Py_ssize_t heard_part
    cdef bint spoke
    cdef double last_spoke
    cdef double last_tick
    cdef double send_every

    cdef bint update(self, double now, long long octets, Py_ssize_t unfinished) except -1
    cdef bint heartbeat_due(self, double now) noexcept
    cdef double next_tick(self, double now, double idle) noexcept
