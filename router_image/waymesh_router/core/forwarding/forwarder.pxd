cimport cython
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.counters cimport Counters
from waymesh_router.core.delivery_sampling cimport DeliverySampling
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.forwarding.gathering cimport Gathering
from waymesh_router.core.forwarding.outflow cimport Outflow
from waymesh_router.core.forwarding.message_address cimport MessageAddress
from waymesh_router.core.forwarding.multicast cimport Multicast
from waymesh_router.core.forwarding.own_messages cimport OwnMessages
from waymesh_router.core.forwarding.pending cimport PendingDeliveries
from waymesh_router.core.forwarding.pending_queue cimport PendingQueue
from waymesh_router.core.forwarding.sections cimport Sections
from waymesh_router.core.forwarding.section_order cimport SectionOrder, goes_on_in_order, is_usual
from waymesh_router.core.link_routing.transfers cimport RoutedLinks
from waymesh_router.core.model cimport Address, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.settlement cimport Settlement

@cython.final
cdef class Forwarder:
    cdef readonly MessageAddress message_address
    cdef ConsumerChoice choice
    cdef readonly Multicast multicast
    cdef PendingDeliveries pending
    cdef OwnMessages own_messages
    cdef Outflow outflow
    cdef Gathering gathering
    cdef RoutedLinks routed
    cdef Sections sections
    cdef Settlement settlement
    cdef Counters counters
    cdef DeliverySampling sampling
    cdef Address uplink_address
    cdef int on_transfer(self, RouterLink lk, IncomingTransfer transfer) except -1
    cdef first_frame(self, RouterLink lk, IncomingTransfer transfer)
    cdef bint to_group(
        self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer
    ) except -1
    cdef int to_one(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer) except -1
    cdef from_edge(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef int keep(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer) except -1
    cdef forward(self, RouterLink lk, Address address, Annotations annotations, RouterLink out, IncomingTransfer transfer)
    cdef forward_stream(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef bint denies_message(self, RouterLink lk, IncomingTransfer transfer) except -1
    cdef no_address(self, RouterLink lk, Address stand_in, IncomingTransfer transfer)
    cdef check_heads(self, RouterLink lk, RouterConnection conn, IncomingTransfer transfer)
    cdef incomplete_head(self, RouterLink lk, IncomingTransfer transfer)
    cdef more_head(self, RouterLink lk, IncomingTransfer transfer)
