from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.incoming_flow cimport IncomingFlow
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.transfer cimport IncomingTransfer

cdef class Handler:
    cdef public list dirty
    cdef public dict ending
    cpdef on_open(self, Connection connection, performative)
    cpdef on_close(self, Connection connection, error)
    cpdef on_begin(self, Session session)
    cpdef bint on_held_window(self, Session session) except -1
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
    cpdef on_writable(self, Connection connection)
