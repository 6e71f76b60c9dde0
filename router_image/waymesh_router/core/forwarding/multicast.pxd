cimport cython
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.forwarding.expiry cimport Expiry
from waymesh_router.core.forwarding.sending cimport QueuedSender
from waymesh_router.core.forwarding.streams cimport Streams
from waymesh_router.core.forwarding.sections cimport Sections
from waymesh_router.core.model cimport Address, Branch, Group, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.settlement cimport Settlement

cdef list elsewhere(list links, RouterLink lk)
cdef Branch new_branch(Queued q, RouterLink out)

@cython.final
cdef class Multicast:
    cdef ConsumerChoice choice
    cdef QueuedSender sender
    cdef Settlement settlement
    cdef readonly dict gone
    cdef Streams streams
    cdef object wide
    cdef public bint unsettled_allowed
    cdef public Address uplink_address
    cdef forward(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef list with_uplink(self, list outs, Address address, Annotations annotations)
    cdef list with_room(self, list outs, RouterLink lk)
    cdef list without_queues(self, list outs)
    cdef expire(self, RouterLink out, Branch branch)
    cdef left_router_queue(self, Queued q)
    cdef refuse_copy(self, RouterLink out, Branch branch)
    cdef count_dropped(self, RouterLink out, Queued q)
    cpdef branch_out(self, Queued q, list outs)
    cpdef branch(self, Queued q, RouterLink consumer)
    cpdef all_branched(self, Queued q)
    cdef send_waiting(self, RouterLink out)
    cpdef drop_waiting(self, RouterLink out, Py_ssize_t count)
    cdef drop_first(self, RouterLink out)
    cdef leave_queue(self, RouterLink out)
    cdef trim(self, RouterLink out)
    cpdef abort_branch(self, RouterLink out)
    cpdef drop_branch(self, RouterLink out, Branch branch, bytes state)

cpdef list take_of(Multicast copies, RouterLink out, RouterConnection connection, long long until)
cdef list copy_to_ready(
    Multicast copies, RouterLink lk, Address address, Annotations annotations, list outs, IncomingTransfer transfer
)
