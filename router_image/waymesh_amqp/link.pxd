cimport cython
cdef class Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.connection cimport Connection

cdef class Link:
    cdef readonly int state
    cdef readonly bint attached
    cdef public Session session
    cdef public Connection connection
    cdef public str name
    cdef public unsigned int handle
    cdef public unsigned int remote_handle
    cdef public bint is_sender
    cdef public bint over
    cdef public int snd_settle_mode
    cdef public int rcv_settle_mode
    cdef public object source
    cdef public object target
    cdef public unsigned long long max_message_size
    cdef public bint counts_sizes
    cdef public unsigned long long oversized
    cdef public unsigned int delivery_count
    cdef public long long credit
    cdef readonly bint paused
    cdef long long paused_credit
    cdef public bint drain
    cdef public bint accepting
    cdef public long long capacity
    cdef public long long held_back
    cdef public long long taken_back
    cdef public long long excess
    cdef public long long outstanding
    cdef public long long replenish
    cdef public bint flow_due
    cdef public unsigned int transfer_id
    cdef public bint transfer_settled
    cdef public unsigned int transfer_format
    cdef public unsigned long long transfer_bytes
    cdef public bint mid_delivery
    cdef public bint busy
    cdef public object backlog
    cdef public bint backlog_more
    cdef public bint abandoned
    cdef public Session holding
    cdef public bint passing
    cdef public bint closed
    cdef public object next_flow_details
    cdef public bint answer_postponed
    cdef public Link awaited_by

    cpdef enter(self, int state)
    cpdef bint usable(self) noexcept
    cpdef bint unanswered(self) noexcept
    cpdef accept(self, attach, source, target)
    cpdef refuse(self, str condition, str description)
    cpdef bare_answer(self)
    cpdef send_attach(self, attach)
    cdef refuse_long(self, attach, error)
    cpdef detach(self, str condition=*, str description=*)
    cpdef detach_with(self, error, bint closed)
    cpdef bint answer_after(self, Link other) except -1
    cpdef answer_now(self, error=*, bint closed=*)
    cdef answer_detach(self, error=*)
    cpdef grant(self)
    cpdef withdraw(self)
    cpdef int return_credit(self) except -1
    cdef use_up(self, long long number)
    cpdef set_credit(self, long long credit)
    cpdef flow_soon(self)
    cpdef pause(self)
    cpdef resume(self)
    cpdef finish_drain(self)
    cpdef bint ready(self) except -1
