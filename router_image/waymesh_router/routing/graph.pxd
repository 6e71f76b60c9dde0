cimport cython

@cython.final
cdef class Graph:
    cdef readonly list ids
    cdef readonly list out
    cdef readonly list into
    cdef readonly dict slots
    cdef list _free

    cpdef Py_ssize_t slot(self, str router_id) except -1
    cpdef bint set_link(self, Py_ssize_t tail, Py_ssize_t head, long long cost) except -1
    cpdef list distances(self, Py_ssize_t root)
    cpdef Py_ssize_t before(self, list dist, Py_ssize_t slot) except -2
    cpdef bytes behind(self, Py_ssize_t root, Py_ssize_t via, dict successors)


@cython.final
cdef class Search:
    cdef readonly list dist
    cdef list _out
    cdef dict _levels
    cdef list _heap

    cpdef advance(self, Py_ssize_t goal)
