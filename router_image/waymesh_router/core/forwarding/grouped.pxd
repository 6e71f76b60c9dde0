from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.forwarding.forwarder cimport Forwarder
from waymesh_router.core.forwarding.pending cimport PendingDeliveries
from waymesh_router.core.forwarding.pending_queue cimport PendingGroup, PendingQueue
from waymesh_router.core.forwarding.sections cimport Sections
from waymesh_router.core.model cimport Address, Queued, RouterLink, Target

cdef int read_slot(Sections sections, IncomingTransfer transfer) except -2
cdef int slot_in(Sections sections, bytes message) except -2
cdef bint forward_grouped(
    Forwarder forwarder, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer
) except -1
cdef bint is_barred(Address address, int slot, RouterLink lk) except -1
cdef bint waits_already(PendingDeliveries pending, Address address, int slot) except -1
cdef bint wait_behind(PendingDeliveries pending, Address address, Queued q) except -1
cdef bint has_slot(Target target, int slot) except -1
cdef Annotations passed_on(
    PendingDeliveries pending, ConsumerChoice choice, Address address, int slot, Annotations a, Target target
)
cdef bint pass_on_grouped(PendingDeliveries pending, Address address, Queued q) except -1
cdef send_grouped(PendingDeliveries pending, Queued q, RouterLink out)
cdef place_waiting(PendingDeliveries pending, Address address)
