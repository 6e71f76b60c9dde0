cimport cython
from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.delivery_sampling cimport DeliverySampling
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.buffer_budget cimport BufferBudget
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.forwarding.expiry cimport Expiry
from waymesh_router.core.forwarding.sections cimport Sections
from waymesh_router.core.model cimport Address, Branch, Queued, RouterLink, Target
from waymesh_router.core.settlement.settlement cimport Settlement

@cython.final
cdef class QueuedSender:
    cdef Sections sections
    cdef ConsumerChoice choice
    cdef Settlement settlement
    cdef BufferBudget budget
    cdef DeliverySampling sampling
    cdef Expiry expiry
    cdef long long arrived
    cdef Py_ssize_t next_arrival(self) except -1
    cdef Queued new_queued(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef Queued new_single(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef bint track_incoming(self, Queued q, RouterLink lk) except -1
    cdef int send(self, Queued q, RouterLink out, Branch branch) except -1
    cdef int send_any(self, Queued q, RouterLink out, Branch branch, bint settled) except -1
    cdef int send_simple_unsettled(self, Queued q, RouterLink out) except -1
    cdef int send_simple_settled(self, Queued q, RouterLink out, Branch branch) except -1
    cdef send_parts(self, Queued q, RouterLink out)
    cdef int track_outgoing(self, Queued q, RouterLink out, unsigned int oid, Branch branch) except -1
    cdef int all_started(self, Queued q) except -1
    cdef taken_settled(self, Queued q)
    cdef int return_early(self, Queued q) except -1
    cdef int return_credit(self, Queued q) except -1
    cdef end_sample(self, Queued q, str outcome)

cdef unsigned int send_with_state(RouterLink out, bint settled, bint more, bytes data, unsigned int form, bytes state) except? 0xffffffff
cdef bint enough_wait_for(QueuedSender sender, RouterLink out, RouterLink lk) except -1
cdef goes_on(Queued q, RouterLink out, Branch branch, bint settled)
cdef bint is_simple_unsettled(Queued q) except -1
cdef bint is_simple_settled(Queued q) except -1
cdef long long size_on(RouterLink out, Queued q) except -1
cdef bytes outgoing_annotations(RouterLink out, Annotations annotations)
cdef unsigned int send_scanned(RouterLink lk, RouterLink out, bint settled, Annotations annotations, Sections sections, IncomingTransfer transfer) except? 0xffffffff
