cimport cython
from waymesh_router.core.forwarding.pending cimport PendingDeliveries
from waymesh_router.core.model cimport Address

@cython.final
cdef class AddressTable:
    cdef readonly dict by_key
    cdef readonly dict nodes
    cdef public int default_treatment
    cdef readonly object patterns
    cdef readonly object link_routes
    cdef readonly set kept
    cdef readonly Address uplink_address
    cdef public object on_tracked
    cdef public object on_priorities
    cdef public object on_groups
    cdef long long version
    cdef object _reconfiguration
    cdef object _producer_credit
    cdef object _releases
    cdef object _context
    cdef PendingDeliveries _pending

    cpdef Address lookup(self, str text, str phase)
    cpdef str key(self, str text, str phase)
    cpdef bint take_out(self, list links, lk) except -1
