from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.session cimport Session
from waymesh_router.core.model cimport Address, Branch, Group, Queued, RouterLink, Target
from waymesh_router.core.queueing cimport Queueing

cdef class Settlement(Queueing):
    cpdef on_outcome(self, Delivery delivery, bint settled, bytes state)
    cpdef bint on_held_window(self, Session session) except -1
    cpdef on_sender_outcome(self, Delivery delivery, bint settled, bytes state)
    cdef unsettled_outcome(self, Delivery d, bytes state)
    cdef settle_incoming(self, Delivery d, bytes state)
    cdef branch_done(self, Group group, bytes state)
    cdef group_done(self, Group group, bytes state)
    cdef sender_settled(self, Delivery d, bytes state)
    cdef settle_outgoing(self, Delivery d, bytes state)
    cpdef consumer_lost(self, RouterLink out)
    cdef on_consumer_lost(self, RouterLink feeder, RouterLink out)
    cdef branch_lost(self, Branch branch)
    cpdef producer_lost(self, RouterLink lk)
    cpdef release_pending(self, Address address)
    cpdef refuse_pending(self, Address address, bytes state)
    cdef release_queued(self, Queued q)
