cimport cython
from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.forwarding.credit cimport CreditEvents
from waymesh_router.core.forwarding.gathering cimport Gathering
from waymesh_router.core.forwarding.own_messages cimport OwnMessages
from waymesh_router.core.forwarding.sending cimport QueuedSender
from waymesh_router.core.link_routing.transfers cimport RoutedLinks
from waymesh_router.core.model cimport Branch, Queued, RouterLink
from waymesh_router.core.settlement.interruptions cimport Interruptions
from waymesh_router.core.settlement.settlement cimport Settlement

@cython.final
cdef class Outflow:
    cdef QueuedSender sender
    cdef OwnMessages own_messages
    cdef Interruptions interruptions
    cdef CreditEvents credit
    cdef Settlement settlement
    cdef Gathering gathering
    cdef RoutedLinks routed
    cdef on_frame(self, RouterLink lk, IncomingTransfer transfer)
    cdef feed(self, RouterLink lk, Queued q, IncomingTransfer transfer)
    cdef bint pass_on(self, RouterLink lk, Branch branch, IncomingTransfer transfer) except -1
    cdef bint keep(self, RouterLink lk, Queued q, IncomingTransfer transfer) except -1
    cdef bint may_hold(self, RouterLink lk) except -1
    cdef branch_ends(self, RouterLink lk, Branch branch)
    cdef queued_ends(self, RouterLink lk, Queued q, bint answered)
