from waymesh_amqp.connection cimport Connection
from waymesh_amqp.delivery cimport Delivery, DeliveryRing
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.wire cimport Octets

cdef read_disposition(Session session, Octets b, Py_ssize_t p, Py_ssize_t end)
cdef bytes read_state(Session session, Octets b, Py_ssize_t p, Py_ssize_t end)
cdef apply_range(Session session, bint from_receiver, unsigned int first, unsigned int last, bint settled, bytes state)
cdef apply_wide_range(Session session, bint from_receiver, unsigned int first, long long count, bint settled, bytes state)
cdef check_state(Session session, bytes state)
cdef apply_outcome(Session session, Delivery d, bint from_receiver, bint settled, bytes state, DeliveryRing ring)
cdef write_disposition(Session session, bint receiver, unsigned int first, unsigned int last, bint settled, bytes state)
