from waymesh_router.core.model cimport Address, Node, RouterConnection, Target

cdef list nearest(Address address, long long paths)
cdef list ways(Address address, long long paths)
cdef int forget_old_paths(Address address, long long paths) except -1
