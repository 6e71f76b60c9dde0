cimport cython
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.session cimport Session
from waymesh_router.core.forwarding.expiry cimport Expiry
from waymesh_router.core.forwarding.gathering cimport Gathering
from waymesh_router.core.forwarding.multicast cimport Multicast
from waymesh_router.core.forwarding.pacing cimport Pacing
from waymesh_router.core.forwarding.pending cimport PendingDeliveries
from waymesh_router.core.forwarding.spread cimport Spread
from waymesh_router.core.link_routing.transfers cimport RoutedLinks
from waymesh_router.core.model cimport Address, RouterConnection, RouterLink

@cython.final
cdef class CreditEvents:
    cdef object writable
    cdef object addresses
    cdef RoutedLinks routed
    cdef readonly Multicast multicast
    cdef readonly PendingDeliveries pending
    cdef readonly Gathering gathering
    cdef readonly Pacing pacing
    cpdef on_credit(self, RouterLink out)
    cpdef send_freed(self)
    cdef int serve(self, Address address) except -1
    cdef bint goes_on(self, RouterLink out) except -1
    cpdef bint end_expired(self) except -1
    cpdef tick_streams(self, double now)
    cdef on_writable(self, Connection connection)
    cpdef tell_some(self, Session session, Py_ssize_t first, Py_ssize_t count)
