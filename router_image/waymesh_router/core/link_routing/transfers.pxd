cimport cython
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.incoming_flow cimport IncomingFlow
from waymesh_amqp.session cimport Session
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.counters cimport Counters
from waymesh_router.core.forwarding.buffer_budget cimport BufferBudget
from waymesh_router.core.model cimport Queued, RouterLink
from waymesh_router.core.settlement.settlement cimport Settlement

@cython.final
cdef class RoutedLinks:
    cdef Settlement settlement
    cdef Counters counters
    cdef BufferBudget budget
    cdef first_frame(self, RouterLink lk, RouterLink out, IncomingTransfer transfer)
    cdef keep_back(self, Queued q, RouterLink lk, RouterLink out)
    cdef hold(self, Queued q, RouterLink lk, bytes payload)
    cdef send(self, Queued q, RouterLink out, IncomingTransfer transfer)
    cdef sent(self, RouterLink lk, Queued q, RouterLink out)
    cdef drop_held(self, RouterLink lk, Queued q)
    cdef return_credit(self, RouterLink lk, RouterLink out)
    cdef pass_credit(self, RouterLink out)
    cdef send_held(self, RouterLink out, RouterLink lk)
    cdef on_flow_details(self, RouterLink link, IncomingFlow flow)
    cdef end_drain(self, RouterLink out, RouterLink lk)
    cdef release_held(self, RouterLink out)

cdef bytes transfer_header(RouterLink out, unsigned int oid, Queued q, bint more, Py_ssize_t payload)
