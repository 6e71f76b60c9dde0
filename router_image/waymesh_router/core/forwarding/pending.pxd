cimport cython
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.counters cimport Counters
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.forwarding.expiry cimport Expiry
from waymesh_router.core.forwarding.pending_queue cimport PendingQueue
from waymesh_router.core.forwarding.sending cimport QueuedSender
from waymesh_router.core.forwarding.size_limits cimport SizeLimits
from waymesh_router.core.forwarding.streams cimport Streams
from waymesh_router.core.model cimport Address, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.settlement cimport Settlement

@cython.final
cdef class PendingDeliveries:
    cdef str stamp
    cdef ConsumerChoice choice
    cdef QueuedSender sender
    cdef Expiry expiry
    cdef Settlement settlement
    cdef readonly Streams streams
    cdef SizeLimits sizes
    cdef Counters counters
    cdef int enqueue(
        self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer, bint examine
    ) except -1
    cdef wait_again(self, Queued q)
    cdef bint enough_wait(self, Address address, RouterLink lk) except -1
    cdef enqueue_at_fallback(self, RouterLink lk, Address fallback, Annotations annotations, IncomingTransfer transfer)
    cdef count_redirected(self, Address address)
    cdef int wait(self, Address address, Queued q) except -1
    cdef int append(self, Address address, Queued q) except -1
    cpdef int await_credit(self, Address address) except -1
    cpdef drain(self, Address address)
    cdef begin(self, Address address, Queued q)
    cdef drain_groups(self, Address address, bint paths_changed)
    cdef bint pass_on(self, Address address, Queued q) except -1
    cdef drain_to(self, Address address, RouterLink out)
    cpdef consumer_left(self, Address address)
    cdef redirect(self, Queued q, Address fallback)
    cpdef give_back(self, Queued q, bytes state)
    cpdef release_all(self, Address address)
    cpdef release_some(self, Address address, int count)
    cpdef refuse_all(self, Address address, bytes state)
    cdef withdraw(self, Queued q)
    cpdef bint take_out(self, Address address, Queued q) except -1

cdef int return_if_shared(PendingDeliveries pending, Address address, Queued q) except -1
cdef int move_on(PendingDeliveries pending, Queued q) except -1
cdef int send_to(PendingDeliveries pending, Queued q, RouterLink out) except -1
cdef bint expire(PendingDeliveries pending, Address address, Queued q) except -1
