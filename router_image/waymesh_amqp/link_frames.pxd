from waymesh_amqp.connection cimport Connection
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session

cpdef open_link(Session session, Link link, attach)
cdef take_attach(Session session, attach)
cdef check_links(Connection connection)
cdef take_detach(Session session, detach)
cdef steal(Session session, Link link)
