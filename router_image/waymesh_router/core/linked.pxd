from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.link cimport Link
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_amqp.wire cimport Octets
from waymesh_router.core.model cimport Queued, RouterLink
from waymesh_router.core.settlement cimport Settlement

cdef class Linked(Settlement):
    cdef pass_on(self, RouterLink lk, IncomingTransfer transfer)
    cdef pass_first(self, RouterLink lk, RouterLink out, IncomingTransfer transfer)
    cdef keep_back(self, Queued q, RouterLink out)
    cdef read_tag_and_state(self, Queued q, IncomingTransfer transfer)
    cdef count_held(self, RouterLink lk, RouterLink out, Py_ssize_t size)
    cdef send_linked(self, Queued q, RouterLink out, bint more, Octets b, Py_ssize_t start, Py_ssize_t end)
    cdef passed(self, RouterLink lk, RouterLink out)
    cdef drop_held(self, RouterLink lk, Queued q)
    cdef pass_credit(self, RouterLink out)
    cdef send_held(self, RouterLink out, RouterLink lk)
    cpdef on_flow_details(self, Link link, bytes fields, int count)
    cpdef on_sender_flow(self, Link link)
    cdef end_drain(self, RouterLink out, RouterLink lk)
    cpdef part(self, RouterLink lk)
    cdef release_held(self, RouterLink out)
    cdef forget_all(self, RouterLink out)

cdef bytes linked_head(RouterLink out, unsigned int oid, Queued q, bint more, Py_ssize_t payload)
cdef int values_in(bytes data) except -1
