from waymesh_amqp.connection cimport Connection
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_router.core.addressing cimport Addressing
from waymesh_router.core.annotations cimport Annotations
from waymesh_router.core.model cimport Address, RouterConnection, RouterLink

cdef class Core(Addressing):
    cdef public double now
    cdef public double started_at
    cdef public object rng
    cdef public object log
    cdef public bint interior
    cdef public dict connections
    cdef public dict closing
    cdef public dict links
    cdef public long long next_connection_id
    cdef public long long next_link_id
    cdef public object opened
    cdef public Address control_address
    cdef public Annotations bare
    cdef public list turned_away
    cdef public dict denied
    cdef public object containers
    cdef public object autolinks
    cdef public object relays

    cpdef on_open(self, Connection connection, performative)
    cpdef on_close(self, Connection connection, error)
    cpdef Link new_link(self, Session session)
    cpdef Address relayed(self, RouterLink lk, str text)
    cpdef on_attach(self, Link link, performative)
    cpdef on_detach(self, Link link, error)
