from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.link cimport Link
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.annotations cimport Annotations
from waymesh_router.core.forwarding cimport Forwarding
from waymesh_router.core.model cimport Address, Branch, Group, Node, Queued, RouterConnection, RouterLink, Target

cdef class Queueing(Forwarding):
    cpdef on_credit(self, Link link)
    cdef pass_credit(self, RouterLink out)
    cdef drop_held(self, RouterLink lk, Queued q)
    cpdef on_writable(self, Connection connection)
    cpdef on_abort(self, Link link)
    cdef Queued new_queued(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef enqueue(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef wait(self, Address address, Queued q)
    cdef await_credit(self, Address address)
    cdef feed(self, RouterLink lk, IncomingTransfer transfer)
    cdef hold_or_refuse(self, RouterLink lk, Queued q)
    cdef all_in(self, RouterLink lk, Queued q, bint answered)
    cdef settled_copies_out(self, Queued q)
    cdef queued_sample_ends(self, Queued q, str outcome)
    cpdef drain(self, Address address)
    cdef redirect(self, Queued q, Address address)
    cdef start(self, Queued q, RouterLink out, Branch branch)
    cdef send_parts(self, Queued q, RouterLink out, Py_ssize_t parts)
    cdef let_go(self, Queued q)
    cdef taken_settled(self, Queued q)
    cdef track_out(self, Queued q, RouterLink out, unsigned int oid, Branch branch)
    cdef branch_sent(self, Branch branch)
    cdef drain_queue(self, RouterLink out)
    cdef to_many(self, RouterLink lk, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef list multicast_links(self, Address address, Annotations annotations, object came_by)
    cdef bint all_ready(self, list outs) except -1
    cdef copy_to_all(self, RouterLink lk, Address address, Annotations annotations, list outs, IncomingTransfer transfer)
    cdef branch_out(self, Queued q, list outs)
    cpdef branch_to(self, Queued q, RouterLink out)
    cdef group_done(self, Group group, bytes state)
    cdef settle_incoming(self, Delivery d, bytes state)
    cdef release_queued(self, Queued q)
    cdef to_subscriber(self, RouterLink lk, Queued q)
    cpdef bint send_own(self, Address address, Annotations annotations, bytes message, int priority) except -1
    cdef drop_stream(self, RouterLink lk)
    cdef cut_short(self, RouterLink lk, Delivery d)
    cdef drop_queued(self, RouterLink lk)
    cdef forget(self, Delivery d)
