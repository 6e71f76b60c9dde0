cimport cython
cdef class Connection
from waymesh_amqp.buffer cimport OutputBuffer
from waymesh_amqp.incoming_flow cimport IncomingFlow
from waymesh_amqp.handler cimport Handler
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.time_outs cimport TimeOuts
from waymesh_amqp.transfer cimport IncomingTransfer

cdef class Connection(OutputBuffer):
    cdef public object settings
    cdef public Handler handler
    cdef int phase
    cdef public int state
    cdef IncomingTransfer transfer
    cdef IncomingFlow incoming_flow
    cdef Py_ssize_t frame_end
    cdef public long long budget
    cdef public long long octets_in
    cdef public long long octets_out
    cdef public bint unread
    cdef public bint left
    cdef public long long progress
    cdef public bint done
    cdef public bint over
    cdef public bint channels_exceeded
    cdef public object error
    cdef public object remote
    cdef public object user
    cdef public tuple groups
    cdef public double expires_at
    cdef public object mechanism
    cdef object sasl
    cdef public Py_ssize_t peer_max
    cdef public Py_ssize_t max_frame
    cdef public int channel_max
    cdef public dict sessions
    cdef public dict remote_sessions
    cdef public object channels
    cdef public long long links
    cdef public long long refused
    cdef public object losing
    cdef int last_channel
    cdef Session last_session
    cdef public dict names
    cdef list flush_sessions
    cdef list outcome_sessions
    cdef list range_left
    cdef public int waits
    cdef public bint dirty
    cdef bint congested
    cdef list held
    cdef public Py_ssize_t unfinished
    cdef public bint express_pending
    cdef TimeOuts times

    cpdef Py_ssize_t receive(self, const unsigned char[::1] b, Py_ssize_t n) except -1
    cpdef sent(self, Py_ssize_t n)
    cpdef flush(self)
    cdef flush_outcomes(self)
    cpdef eof(self, str reason)
    cpdef double tick(self, double now) except? -1
    cpdef mark_dirty(self)
    cpdef bint backed_up(self) except -1
    cdef release_held(self)
    cdef step(self, event)
    cpdef send_open(self)
    cpdef close(self, str condition=*, str description=*)
    cpdef answer_close(self)
    cpdef fail(self, str condition, str description)
    cdef finish(self)
    cdef over_now(self)
    cpdef bint end_links(self, int count) except -1
    cpdef links_ended(self)
    cpdef resume(self, bytes answer)
    cdef Session session_at(self, int channel)
    cpdef Session new_session(self)
    cdef free_remote_channel(self, int channel)
    cdef free_channel(self, Session session)
    cpdef Session open_session(self)
