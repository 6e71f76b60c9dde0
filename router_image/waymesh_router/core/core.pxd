from waymesh_amqp.connection cimport Connection
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_router.core.annotations cimport Annotations
from waymesh_router.core.model cimport Address, RouterConnection, RouterLink
from waymesh_router.core.linked cimport Linked

cdef class Core(Linked):
    cdef public double now
    cdef public double started_at
    cdef public object rng
    cdef public object log
    cdef public bint interior
    cdef public object mesh
    cdef public dict connections
    cdef public dict closing
    cdef public dict links
    cdef public dict nodes
    cdef public long long next_connection_id
    cdef public long long next_link_id
    cdef public int default_treatment
    cdef public long long drain_from
    cdef public object opened
    cdef public object patterns
    cdef public Address control_address
    cdef public Annotations bare
    cdef public object containers
    cdef public object autolinks
    cdef public object linkroutes

    cpdef on_open(self, Connection connection, performative)
    cpdef on_close(self, Connection connection, error)
    cpdef Link new_link(self, Session session)
    cpdef on_attach(self, Link link, performative)
    cpdef on_detach(self, Link link, error)
    cpdef Address lookup(self, str text, str phase)
