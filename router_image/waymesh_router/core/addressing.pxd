from waymesh_router.core.linked cimport Linked
from waymesh_router.core.model cimport Address

cdef class Addressing(Linked):
    cdef public object mesh
    cdef public dict nodes
    cdef public int default_treatment
    cdef public long long drain_from
    cdef public object patterns
    cdef public object linkroutes
    cdef public object watcher

    cpdef Address lookup(self, str text, str phase)
