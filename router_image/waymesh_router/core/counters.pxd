cimport cython
from waymesh_router.core.model cimport Address, RouterConnection, RouterLink

@cython.final
cdef class Counters:
    cdef public long long presettled
    cdef public long long dropped_presettled
    cdef public long long accepted
    cdef public long long rejected
    cdef public long long released
    cdef public long long modified
    cdef public long long ingress
    cdef public long long egress
    cdef public long long transit
    cdef public long long from_containers
    cdef public long long to_containers
    cdef public long long redirected
    cdef public long long expired
    cdef int count_in(self, RouterLink lk, Address address) except -1
    cdef int count_out(self, Address address, RouterLink out) except -1
    cdef count_routed_in(self, RouterLink lk)
    cdef count_routed_out(self, RouterLink out)
    cdef count_presettled(self, RouterLink lk)
    cdef int count_outcome(self, RouterLink lk, int code) except -1

cdef int count_on_link(RouterLink lk, int code) except -1
