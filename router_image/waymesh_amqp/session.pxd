cimport cython
cdef class Session
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.delivery cimport Delivery, DeliveryRing
from waymesh_amqp.handler cimport Handler
from waymesh_amqp.link cimport Link
from waymesh_amqp.outcome_ranges cimport OutcomeRanges

@cython.final
cdef class Session:
    cdef public Connection connection
    cdef Handler handler
    cdef public int channel
    cdef public int remote_channel
    cdef public int state
    cdef public list links
    cdef public object handles
    cdef dict remote_links
    cdef public dict refused
    cdef long long last_handle
    cdef Link last_link
    cdef public unsigned int remote_handle_max
    cdef public unsigned int window
    cdef public unsigned int next_incoming_id
    cdef public unsigned int window_end
    cdef readonly unsigned int spare
    cdef bint gave_credit
    cdef public unsigned int next_outgoing_id
    cdef public long long remote_window
    cdef public unsigned int next_delivery_id
    cdef public DeliveryRing unsettled_in
    cdef public DeliveryRing unsettled_out
    cdef public OutcomeRanges outcomes
    cdef bytes outcome_state
    cdef public bint keeps_outcomes
    cdef bytes checked_state
    cdef bint state_transactional
    cdef public list flow_links
    cdef bint window_due
    cdef bint window_low
    cdef bint listed
    cdef public int holds
    cdef int holds_out
    cdef public bint losing
    cdef public Py_ssize_t lost
    cdef readonly bint ours
    cdef public object error
    cdef list blocked

    cdef unsigned int new_delivery_id(self) except? 0
    cpdef begin(self)
    cpdef on_begin(self, begin, int remote_channel)
    cpdef end(self, str condition=*, str description=*)
    cpdef on_end(self, end)
    cpdef answer_end(self)
    cdef over(self, error)
    cpdef lose(self, Link link, error)
    cpdef send_frame(self, performative)
    cdef new_handle(self, Link link)
    cdef free_handle(self, Link link)
    cdef link_over(self, Link link, error)
    cdef forget_name(self, Link link)
    cdef forget(self, Link link, answer=*)
    cdef Link remote_link(self, long long handle)
    cpdef free_remote_handle(self, Link link)
    cdef unblock(self)
    cpdef settle(self, unsigned int did, bytes state)
    cdef list_for_flush(self)
    cdef put_outcomes(self)
    cpdef send_outcomes(self)
    cpdef report(self, bint receiver, unsigned int did, bint settled, bytes state)
    cpdef window_soon(self)
    cdef window_is_low(self)
    cdef bint may_continue(self) noexcept
    cpdef hold_window(self, Link link)
    cpdef release(self, Link link)
    cdef release_window(self, Link link)
    cdef flush(self)
    cdef admit_few(self)
