from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.model cimport Address, Node, RouterConnection, Target

cdef long long LAST
cdef list nearest(Address address, long long paths)
cdef list ways(Address address, long long paths)
cdef list ways_from(Address address, Annotations annotations, long long paths)
cdef list by_neighbour(Address address, str ingress)
cdef list by_load(Address address, long long paths)
cdef list by_rank(Address address, long long paths)
cdef list in_order(Address address, int order, long long paths)
cdef long long load_of(Target target) except? -1
cdef long long rank_of(Target target) except? -1
cdef int forget_old_paths(Address address, long long paths) except -1
cpdef forget_targets(Address address)
