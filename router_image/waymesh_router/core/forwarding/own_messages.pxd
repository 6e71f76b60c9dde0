cimport cython
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.addresses.table cimport AddressTable
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.forwarding.multicast cimport Multicast
from waymesh_router.core.forwarding.pending cimport PendingDeliveries
from waymesh_router.core.forwarding.sections cimport Sections
from waymesh_router.core.forwarding.sending cimport QueuedSender
from waymesh_router.core.model cimport Address, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.settlement cimport Settlement

@cython.final
cdef class OwnMessages:
    cdef AddressTable addresses
    cdef QueuedSender sender
    cdef Multicast multicast
    cdef PendingDeliveries pending
    cdef Settlement settlement
    cdef readonly Annotations annotations
    cdef readonly Annotations unannotated
    cdef begin(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef deliver(self, RouterLink lk, Queued q)
    cdef to_exchange(self, RouterLink lk, Queued q)
    cdef Py_ssize_t most_bytes(self, RouterLink lk, Address address) except -1
    cdef refuse(self, RouterLink lk, Queued q, bint more)
    cdef bint grown(self, RouterLink lk, Queued q, Py_ssize_t size) except -1
