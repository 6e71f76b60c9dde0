cimport cython
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.forwarding.sections cimport Sections
from waymesh_router.core.forwarding.streams cimport Streams
from waymesh_router.core.model cimport Queued, RouterLink, Target

@cython.final
cdef class SizeLimits:
    cdef ConsumerChoice choice
    cdef Streams streams
    cdef bint fits(self, Queued q, RouterLink out) except -1
    cdef bint send_elsewhere(self, Queued q) except -1
    cdef RouterLink local_consumer(self, Queued q, Connection barred, bint ready)
    cdef RouterLink remote_consumer(self, Queued q)

cdef bint begins_too_large(RouterLink out, Annotations annotations, Sections sections, IncomingTransfer transfer) except -1
cdef bint grows_too_large(RouterLink out, IncomingTransfer transfer) except -1
