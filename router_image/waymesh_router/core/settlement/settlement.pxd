cimport cython
from waymesh_amqp.delivery cimport Delivery
from waymesh_router.core.counters cimport Counters
from waymesh_router.core.delivery_sampling cimport DeliverySampling, Sample
from waymesh_router.core.forwarding.spread cimport Spread
from waymesh_router.core.model cimport Group, RouterLink, Target

@cython.final
cdef class Settlement:
    cdef readonly Counters counters
    cdef readonly DeliverySampling sampling
    cdef readonly Spread spread
    cdef bint track(self, RouterLink lk, Delivery d) except -1
    cdef int track_outgoing(self, Delivery d, RouterLink out, unsigned int oid, Target target) except -1
    cdef forwarded_settled(self, RouterLink lk)
    cdef refuse(self, RouterLink lk, bint more, bytes state)
    cpdef RouterLink on_outcome(self, Delivery d, bint settled, bytes state)
    cdef unsettled_outcome(self, Delivery d, bytes state)
    cdef int settle_incoming(self, Delivery d, bytes state) except -1
    cdef branch_done(self, Group group, bytes state)
    cdef group_done(self, Group group, bytes state)
    cpdef on_sender_outcome(self, Delivery d, bint settled, bytes state)
    cdef sender_settled(self, Delivery d, bytes state)
    cdef settle_outgoing(self, Delivery d, bytes state)
    cdef int return_credit(self, Delivery d, RouterLink lk) except -1
    cdef int leave_incoming(self, Delivery d, RouterLink lk) except -1
    cdef leave_outgoing(self, Delivery d, RouterLink out)
    cdef int leave_target(self, Delivery d, bint done) except -1
    cdef forget(self, Delivery d)
