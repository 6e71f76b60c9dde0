from waymesh_amqp.connection cimport Connection
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.wire cimport Octets

cdef read_flow(Session session, Octets b, Py_ssize_t p, Py_ssize_t end)
cdef read_link_flow(Session session, Link link, Octets b, Py_ssize_t p, Py_ssize_t end, Py_ssize_t n)
cdef bint asks_for_echo(Octets b, Py_ssize_t p, Py_ssize_t end) except -1
cdef credit_everywhere(Session session)
cdef write_flow(Session session, Link link)
