cimport cython
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.forwarding.sending cimport QueuedSender
from waymesh_router.core.forwarding.stream_links cimport StreamLinks
from waymesh_router.core.model cimport Queued, RouterConnection, RouterLink

@cython.final
cdef class Streams:
    cdef object context
    cdef readonly StreamLinks links
    cdef QueuedSender sender
    cdef ConsumerChoice choice
    cdef readonly object lost_links
    cdef public Py_ssize_t behind
    cpdef opened(self, RouterConnection conn, performative)
    cdef int send(self, Queued q, RouterLink out) except -1
    cdef wait_for(self, Queued q, RouterLink link)
    cdef RouterLink instead(self, Queued q, RouterLink out)
    cdef Py_ssize_t take_behind(self) except -1
