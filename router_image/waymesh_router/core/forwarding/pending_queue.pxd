cimport cython
cdef class PendingGroup
cdef class PendingQueue
from waymesh_router.core.model cimport Queued, RouterConnection, RouterLink

@cython.final
cdef class PendingGroup:
    cdef list items
    cdef Py_ssize_t at
    cdef Py_ssize_t base
    cdef Py_ssize_t count
    cdef int append(self, Queued q) except -1
    cdef Queued first(self)
    cdef list waiting(self)
    cdef bint remove(self, Queued q) except -1
    cdef compact(self)

@cython.final
cdef class PendingWalk:
    cdef PendingGroup group
    cdef Py_ssize_t left
    cpdef list some(self, Py_ssize_t count)

@cython.final
cdef class PendingQueue:
    cdef Py_ssize_t count
    cdef Py_ssize_t settled
    cdef Py_ssize_t passing
    cdef int awaited
    cdef PendingGroup free
    cdef PendingGroup mesh
    cdef bint mesh_waits
    cdef bint free_waits
    cdef bint free_next
    cdef dict grouped
    cdef Py_ssize_t grouped_count
    cdef dict barred
    cdef list heads
    cdef list passed_over
    cdef bint may_be_overtaken(self) noexcept
    cpdef Py_ssize_t own(self) except -1
    cpdef int append(self, Queued q) except -1
    cdef PendingGroup group_barred_by(self, RouterConnection connection, long long arrival)
    cdef PendingGroup group_in(self, int slot)
    cdef Queued first_of_all(self)
    cdef PendingGroup group_of(self, Queued q)
    cdef bint leads(self, Queued q) except -1
    cdef Queued first(self)
    cdef Queued first_here(self)
    cdef Queued oldest_barred(self)
    cdef pass_over(self)
    cdef restore(self)
    cpdef list walks(self)
    cdef bint remove(self, Queued q) except -1
    cdef int count_kind(self, Queued q, int change) except -1
