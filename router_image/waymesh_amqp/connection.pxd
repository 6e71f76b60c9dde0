cimport cython
cdef class Connection
from waymesh_amqp.buffer cimport OutputBuffer
from waymesh_amqp.handler cimport Handler
from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_amqp.wire cimport Octets

cdef class Connection(OutputBuffer):
    cdef public object settings
    cdef public Handler handler
    cdef int phase
    cdef public str state
    cdef public bint receiving
    cdef IncomingTransfer transfer
    cdef Py_ssize_t frame_end
    cdef public long long budget
    cdef public long long octets_in
    cdef public long long octets_out
    cdef public bint done
    cdef public bint over
    cdef public object error
    cdef public object remote
    cdef public object user
    cdef public object mechanism
    cdef object sasl
    cdef public Py_ssize_t peer_max
    cdef public Py_ssize_t max_frame
    cdef public int channel_max
    cdef public dict sessions
    cdef public dict remote_sessions
    cdef public object channels
    cdef public long long links
    cdef public list lost_links
    cdef int last_channel
    cdef Session last_session
    cdef public dict names
    cdef list flush_sessions
    cdef public bint dirty
    cdef bint congested
    cdef list held
    cdef public int owing
    cdef public Py_ssize_t unfinished
    cdef long long counted_in
    cdef Py_ssize_t counted_part
    cdef bint spoke
    cdef public bint hurry
    cdef double last_heard
    cdef double last_spoke
    cdef double last_tick
    cdef double deadline
    cdef double send_every

    cpdef Py_ssize_t receive(self, const unsigned char[::1] b, Py_ssize_t n) except -1
    cdef Py_ssize_t take_frames(self, Octets b, Py_ssize_t pos, Py_ssize_t n) except -1
    cdef bad_frame_header(self, Py_ssize_t size, int doff)
    cpdef sent(self, Py_ssize_t n)
    cpdef flush(self)
    cdef flush_outcomes(self)
    cpdef eof(self, str reason)
    cpdef double tick(self, double now) except? -1
    cpdef mark_dirty(self)
    cpdef bint backed_up(self)
    cdef release_held(self)
    cdef start_client(self)
    cdef start_amqp(self)
    cdef step(self, str event)
    cpdef send_open(self)
    cpdef close(self, str condition=*, str description=*)
    cdef answer_close(self)
    cdef fail(self, str condition, str description)
    cdef finish(self)
    cdef over_now(self)
    cdef lose_links(self)
    cpdef bint end_links(self, int count)
    cdef gone(self)
    cdef Py_ssize_t take_preamble(self, Octets b, Py_ssize_t pos, Py_ssize_t n) except -1
    cdef check_header_start(self, bytes start)
    cdef on_header(self, bytes header)
    cdef on_answered_header(self, bytes header)
    cdef turn_away(self, str why)
    cdef on_sasl(self, frame)
    cdef answer_sasl(self, bytes answer)
    cpdef resume(self, bytes answer)
    cdef Session session_at(self, int channel)
    cdef on_other(self, bytes frame, int channel)
    cdef on_odd_encoding(self, performative, bytes payload, int channel)
    cdef on_open(self, performative)
    cdef on_close(self, performative)
    cdef on_begin(self, performative, int channel)
    cdef on_end(self, performative, int channel)
    cpdef Session new_session(self)
    cdef check_links(self)
    cdef free_channel(self, Session session)
    cpdef Session open_session(self)
