from waymesh_amqp.connection cimport Connection
from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.incoming_flow cimport IncomingFlow
from waymesh_amqp.handler cimport Handler
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.addresses.table cimport AddressTable
from waymesh_router.core.counters cimport Counters
from waymesh_router.core.delivery_sampling cimport DeliverySampling
from waymesh_router.core.forwarding.buffer_budget cimport BufferBudget
from waymesh_router.core.forwarding.credit cimport CreditEvents
from waymesh_router.core.forwarding.expiry cimport Expiry
from waymesh_router.core.forwarding.forwarder cimport Forwarder
from waymesh_router.core.forwarding.own_messages cimport OwnMessages
from waymesh_router.core.forwarding.streams cimport Streams
from waymesh_router.core.link_routing.transfers cimport RoutedLinks
from waymesh_router.core.model cimport RouterConnection, RouterLink
from waymesh_router.core.settlement.interruptions cimport Interruptions
from waymesh_router.core.settlement.settlement cimport Settlement

cdef class Core(Handler):
    cdef readonly object context
    cdef readonly Counters counters
    cdef readonly BufferBudget budget
    cdef readonly object opened_windows
    cdef readonly DeliverySampling sampling
    cdef readonly object spread
    cdef readonly object pacing
    cdef readonly Settlement settlement
    cdef readonly RoutedLinks routed_links
    cdef readonly CreditEvents credit
    cdef readonly Expiry expiry
    cdef readonly Interruptions interruptions
    cdef readonly AddressTable address_table
    cdef readonly object remote_routers
    cdef readonly object demand
    cdef readonly Streams streams
    cdef readonly object link_registry
    cdef readonly object endpoint_links
    cdef readonly object mesh_links
    cdef readonly object containers
    cdef readonly object autolinks
    cdef readonly object linkroutes
    cdef readonly object routed_attaches
    cdef readonly object relays
    cdef readonly object refusals
    cdef readonly object connection_table
    cdef readonly OwnMessages own_messages
    cdef readonly object exchanges
    cdef readonly object uplink
    cdef readonly object edges
    cdef readonly Forwarder forwarder
    cdef readonly str router_id
    cdef readonly object log
    cdef readonly double started_at
    cdef readonly dict addresses
    cdef readonly dict nodes
    cdef readonly dict links
    cdef readonly dict connections
    cdef readonly dict closing
    cdef readonly dict denied

    cpdef on_open(self, Connection connection, performative)
    cpdef on_close(self, Connection connection, error)
    cpdef on_writable(self, Connection connection)
    cpdef unsigned int session_window(self, Session session) except? 0
    cpdef Link new_link(self, Session session)
    cpdef on_attach(self, Link link, performative)
    cpdef on_detach(self, Link link, error)
    cpdef on_transfer(self, Link link, IncomingTransfer transfer)
    cpdef on_oversized(self, Link link, IncomingTransfer transfer)
    cpdef on_abort(self, Link link)
    cpdef on_outcome(self, Delivery delivery, bint settled, bytes state)
    cpdef on_sender_outcome(self, Delivery delivery, bint settled, bytes state)
    cpdef on_credit(self, Link link)
    cpdef on_sender_flow(self, Link link)
    cpdef on_flow_details(self, Link link, IncomingFlow flow)
    cpdef bint on_held_window(self, Session session) except -1
