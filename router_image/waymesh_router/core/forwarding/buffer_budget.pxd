cimport cython
from waymesh_router.core.model cimport Queued, RouterConnection, RouterLink

@cython.final
cdef class BufferBudget:
    cdef public long long kept
    cdef public long long peak
    cdef public bint full
    cdef public bint excess
    cdef public bint short
    cdef public long long most
    cdef public long long per_router
    cdef public long long per_connection
    cdef public long long per_link
    cdef public long long small
    cdef public long long replies
    cdef public dict braked
    cdef object resuming
    cpdef set_limits(self, long long router, long long connection, long long link)
    cdef int take(self, Queued q, Py_ssize_t size) except -1
    cdef int check(self, RouterLink lk) except -1
    cdef int count(self, Queued q, Py_ssize_t size) except -1
    cdef bint take_own(self, Queued q, Py_ssize_t size) except -1
    cdef bint take_reply(self, Queued q) except -1
    cdef bint enough_replies(self) except -1
    cdef bint half_used(self, RouterLink lk) except -1
    cdef bint must_drop(self, RouterLink lk) except -1
    cdef narrow(self, RouterLink lk)
    cdef brake(self, RouterLink lk)
    cdef give(self, Queued q)
    cdef resume_all(self, RouterConnection conn)
    cdef resume(self, RouterLink lk)
    cdef int release(self, RouterLink lk) except -1
    cdef forget(self, RouterLink lk)
