cimport cython
from waymesh_router.runtime.epoll cimport epoll_event
from waymesh_router.runtime.transport.connection_io cimport ConnectionIO

cdef class Loop

cdef class Timer:
    cdef Loop _loop
    cdef public double when
    cdef public object callback
    cpdef cancel(self)

cdef class Loop:
    cdef double _origin
    cdef object _epoll
    cdef int _fd
    cdef list _reported
    cdef object _low
    cdef int _low_fd
    cdef dict _handlers
    cdef dict _masks
    cdef dict _low_masks
    cdef list _timers
    cdef Py_ssize_t _cancelled
    cdef object _calls
    cdef object _kept
    cdef int _wakeup
    cdef readonly int wakeup_fd
    cdef bint _stopped
    cdef epoll_event _events[1024]
    cdef public object on_wake
    cdef public object on_error
    cpdef double now(self) except? -1
    cdef _lower_priority(self, int fd)
    cdef int _wait(self, double timeout_s) except -1
    cdef _serve_low(self)
    cdef double _timeout(self, double deadline) except? -2
    cdef _run_timers(self, double now)
    cdef _forget_cancelled(self)
    cdef double _turn(self, turn) except? -2
    cdef _guarded(self, str where, callback)

cdef double ceil_ms(double seconds) noexcept
