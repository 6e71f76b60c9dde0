cimport cython
cdef class IncomingFlow
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.wire cimport Octets

@cython.final
cdef class IncomingFlow:
    cdef long long next_incoming_id
    cdef long long incoming_window
    cdef long long handle
    cdef long long delivery_count
    cdef long long link_credit
    cdef readonly long long available
    cdef readonly bint drain
    cdef readonly bint echo
    cdef readonly object properties
    cdef read(self, Octets b, Py_ssize_t p, Py_ssize_t end)
    cdef Py_ssize_t read_link_state(self, Octets b, Py_ssize_t p, Py_ssize_t end, Py_ssize_t n) except -1

cdef read_flow(Session session, Octets b, Py_ssize_t p, Py_ssize_t end)
cdef take_link_flow(Session session, Link link, IncomingFlow flow)
cdef take_sender_count(Session session, Link link, unsigned int count)
cdef credit_everywhere(Session session)
cdef write_flow(Session session, Link link)
