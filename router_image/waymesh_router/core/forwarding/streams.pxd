cimport cython
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.forwarding.sending cimport QueuedSender
from waymesh_router.core.model cimport Address, Branch, Queued, RouterConnection, RouterLink

@cython.final
cdef class Streams:
    cdef object context
    cdef object links
    cdef QueuedSender sender
    cdef ConsumerChoice choice
    cdef readonly dict users
    cdef dict idle
    cpdef opened(self, RouterConnection conn, performative)
    cdef send(self, Queued q, RouterLink out)
    cdef RouterLink instead(self, Queued q, RouterLink out)
    cdef RouterLink open(self, RouterLink lk, RouterConnection conn, Address address)
    cdef list lost(self, RouterLink link)
    cdef list take_back(self, RouterLink link, RouterConnection connection, long long until)
    cpdef tick(self, double now)
