cimport cython
from waymesh_amqp.delivery cimport Delivery, DeliveryRing
from waymesh_amqp.session cimport Session
from waymesh_router.core.forwarding.buffer_budget cimport BufferBudget
from waymesh_router.core.forwarding.credit cimport CreditEvents
from waymesh_router.core.forwarding.gathering cimport Gathering
from waymesh_router.core.forwarding.multicast cimport Multicast
from waymesh_router.core.forwarding.pending cimport PendingDeliveries
from waymesh_router.core.forwarding.pending_queue cimport PendingQueue, PendingWalk
from waymesh_router.core.link_routing.transfers cimport RoutedLinks
from waymesh_router.core.model cimport Address, Branch, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.settlement cimport Settlement

@cython.final
cdef class Interruptions:
    cdef readonly CreditEvents credit
    cdef Settlement settlement
    cdef BufferBudget budget
    cdef RoutedLinks routed
    cdef Multicast multicast
    cdef PendingDeliveries pending
    cdef object lost
    cdef object lost_copies
    cdef object context
    cdef dict ending
    cdef Gathering gathering
    cdef public object routed_link_ended
    cdef on_abort(self, RouterLink lk)
    cdef cut_short(self, RouterLink lk, Delivery d)
    cdef drop_arriving(self, RouterLink lk)
    cpdef consumer_lost(self, RouterLink out)
    cdef end_outgoing(self, RouterLink out, Delivery d)
    cdef on_consumer_lost(self, RouterLink feeder)
    cpdef producer_lost(self, RouterLink lk)
    cdef end_incoming(self, RouterLink lk, Delivery d)
    cdef end_later(self, DeliveryRing ring, RouterLink lk)
    cpdef report_end(self, RouterLink lk)
    cpdef bint ends_later(self, RouterLink lk) except -1
    cdef end_if_last(self, DeliveryRing ring, RouterLink lk)
    cpdef list live(self, DeliveryRing ring)
    cpdef int end_some(self, DeliveryRing ring, list left) except -1
    cpdef int drop_some(self, RouterLink out, list left) except -1
    cpdef routed_link_lost(self, RouterLink lk)
    cpdef part(self, RouterLink lk)
    cdef bint needs_frames(self, Session session) except -1

cdef end_waiting(Interruptions parts, RouterLink out, Py_ssize_t count)
cpdef list search_waiting(
    Interruptions parts, RouterConnection connection, list links, list addresses, long long until
)
cpdef drop_found(Interruptions parts, RouterConnection connection, list found, long long until, int count)
