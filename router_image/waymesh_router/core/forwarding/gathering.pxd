cimport cython
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.pending cimport PendingDeliveries
from waymesh_router.core.model cimport Address, Queued, RouterLink

@cython.final
cdef class Gathering:
    cdef PendingDeliveries pending
    cdef readonly dict deliveries
    cdef object slow
    cdef begin(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef leave(self, Queued q)
    cdef end(self, Queued q)
    cdef tick(self)
    cpdef long end_slow(self, Queued q) except -1
