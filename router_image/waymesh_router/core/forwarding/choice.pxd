cimport cython
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.spread cimport Spread
from waymesh_router.core.model cimport Address, Node, RouterConnection, RouterLink, Target

@cython.final
cdef class ConsumerChoice:
    cdef Spread spread
    cdef public int priority
    cdef public bint settled
    cdef public int slot
    cdef public Target picked
    cdef public long long paths
    cdef object barred
    cdef RouterLink pick(self, Address address, Annotations annotations)
    cdef RouterLink pick_elsewhere(self, Address address, Annotations annotations, RouterLink lk)
    cdef bint only_ready(self, Address address, RouterLink out) except -1
    cdef bint any_ready(self, Address address) except -1
    cdef RouterLink pick_closest(self, Address address, Annotations annotations)
    cdef RouterLink pick_nearest(self, Address address, Annotations annotations)
    cdef RouterLink pick_balanced(self, Address address, Annotations annotations)
    cdef bint takes(self, Address address, RouterLink out) except -1
    cdef RouterLink pick_remote(self, Address address, Annotations annotations, RouterLink best, long long least)
    cdef RouterLink remote_link(self, Target target, Annotations annotations)
    cdef bint has_path(self, Address address, Annotations annotations) except -1
    cdef bint has_local(self, Address address) except -1
    cdef bint has_path_elsewhere(self, Address address, Annotations annotations, RouterLink lk) except -1
    cdef list all_links(self, Address address, Annotations annotations, object came_by)

cdef RouterLink pick_soonest(ConsumerChoice choice, Address address, Annotations annotations)
cdef RouterLink pick_soonest_remote(
    ConsumerChoice choice, Address address, Annotations annotations, RouterLink best, double least
)
