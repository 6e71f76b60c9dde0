cimport cython
cdef class ConnectionIO
from waymesh_amqp.connection cimport Connection
from waymesh_router.runtime.transport.receive_buffer cimport ReceiveBuffer

cdef class ConnectionIO:
    cdef public object owner
    cdef public object sock
    cdef public int fd
    cdef public Connection conn
    cdef public ReceiveBuffer buffer
    cdef ReceiveBuffer shared
    cdef Py_ssize_t kept
    cdef bytes tail
    cdef Py_ssize_t portion
    cdef Py_ssize_t most_unsent
    cdef int mask
    cdef Py_ssize_t used
    cdef readonly bint paused
    cdef public bint more
    cdef bint queued
    cdef public bint open
    cdef bint blocked
    cdef bint leaving
    cdef bint last
    cdef public object info
    cdef public object tap
    cpdef keep_little_unsent(self)
    cpdef limit_unsent(self)
    cpdef bytes rest(self)
    cpdef on_event(self, int mask)
    cpdef abandon(self)
    cdef bint read(self) except -1
    cdef peer_leaves(self)
    cdef drop_output(self)
    cdef feed(self, Py_ssize_t count)
    cdef put_back(self, Py_ssize_t left)
    cdef bint keep(self, Py_ssize_t used, Py_ssize_t count) except -1
    cdef pause(self, Py_ssize_t used)
    cpdef queue(self)
    cpdef continue_input(self)
    cdef handle_tail(self)
    cpdef flush(self)
    cdef write(self)
    cdef wait_for_room(self)
    cdef wait_for(self, int mask)
    cdef bint flushed(self) except -1
    cpdef Py_ssize_t receive(self, Py_ssize_t start) except? -2
    cpdef Py_ssize_t send(self, Py_ssize_t size) except? -2

cpdef continue_all_inputs(ReceiveBuffer buffer)
cpdef flush_all(list dirty, dict connections)
