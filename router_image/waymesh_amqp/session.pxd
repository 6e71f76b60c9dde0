cimport cython
cdef class Session
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.delivery cimport Delivery, DeliveryRing
from waymesh_amqp.handler cimport Handler
from waymesh_amqp.link cimport Link
from waymesh_amqp.outcome_ranges cimport OutcomeRanges
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_amqp.wire cimport Octets, WritableOctets

@cython.final
cdef class Session:
    cdef public Connection connection
    cdef Handler handler
    cdef public int channel
    cdef public int remote_channel
    cdef public str state
    cdef public bint mapped
    cdef public list links
    cdef public object handles
    cdef dict remote_links
    cdef long long last_handle
    cdef Link last_link
    cdef public unsigned int remote_handle_max
    cdef public unsigned int window
    cdef public unsigned int next_incoming_id
    cdef public unsigned int window_end
    cdef public unsigned int next_outgoing_id
    cdef public long long remote_window
    cdef public unsigned int next_delivery_id
    cdef public DeliveryRing unsettled_in
    cdef public DeliveryRing unsettled_out
    cdef OutcomeRanges outcomes
    cdef bytes outcome_state
    cdef bytes checked_state
    cdef bint state_transactional
    cdef public list flow_links
    cdef bint window_due
    cdef bint listed
    cdef public int holds
    cdef int holds_out
    cdef public int owing
    cdef list blocked

    cpdef begin(self)
    cpdef on_begin(self, begin, int remote_channel)
    cpdef end(self, str condition=*, str description=*)
    cpdef on_end(self, end)
    cdef answer_end(self)
    cdef over(self, error)
    cdef list stop(self)
    cdef lose(self, Link link, error)
    cpdef send_frame(self, performative)
    cdef new_handle(self, Link link)
    cdef free_handle(self, Link link)
    cpdef open_link(self, Link link, attach)
    cpdef on_attach(self, attach)
    cpdef on_detach(self, detach)
    cdef steal(self, Link link)
    cdef link_over(self, Link link, error)
    cdef forget_name(self, Link link)
    cdef forget(self, Link link, answer=*)
    cdef Link remote_link(self, long long handle)
    cdef free_remote_handle(self, Link link)
    cdef on_transfer(self, IncomingTransfer transfer, Py_ssize_t p, Py_ssize_t end)
    cdef bint beyond_us(self, Link link, IncomingTransfer transfer) except -1
    cdef on_flow(self, Octets b, Py_ssize_t p, Py_ssize_t end)
    cdef on_link_flow(self, Link link, Octets b, Py_ssize_t p, Py_ssize_t end, Py_ssize_t n)
    cdef unblock(self)
    cdef bint flow_echo(self, Octets b, Py_ssize_t p, Py_ssize_t end) except -1
    cdef credit_everywhere(self)
    cdef on_disposition(self, Octets b, Py_ssize_t p, Py_ssize_t end)
    cdef check_state(self, bytes state)
    cdef apply_outcome(self, Delivery d, bint from_receiver, bint settled, bytes state, DeliveryRing ring)
    cpdef settle(self, unsigned int did, bytes state)
    cdef list_for_flush(self)
    cdef put_outcomes(self)
    cdef put_disposition(self, bint receiver, unsigned int first, unsigned int last, bint settled, bytes state)
    cpdef report(self, bint receiver, unsigned int did, bint settled, bytes state)
    cpdef window_soon(self)
    cpdef hold(self, Link link)
    cpdef release(self, Link link)
    cdef let_go(self, Link link)
    cdef flush(self)
    cdef admit_few(self)
    cdef put_flow(self, Link link)
    cdef frame_start(self, WritableOctets o, Py_ssize_t p, Py_ssize_t size, int code)
