from waymesh_amqp.connection cimport Connection
from waymesh_amqp.incoming_flow cimport IncomingFlow
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.wire cimport Octets

cdef read_flow(Session session, Octets b, Py_ssize_t p, Py_ssize_t end)
cdef take_link_flow(Session session, Link link, IncomingFlow flow)
cdef take_credit_first(Session session, IncomingFlow flow)
cdef take_credit(Link link, IncomingFlow flow)
cdef take_sender_count(Session session, Link link, unsigned int count)
cdef credit_everywhere(Session session)
cdef renew_window(Session session)
cpdef narrow_window(Session session, unsigned int window)
cdef write_flow(Session session, Link link)
cdef write_window(Session session)
