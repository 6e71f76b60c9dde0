cimport cython
cdef class MovingTlsIO
cdef class TlsThread
cdef class TlsThreads
from libc.stdint cimport intptr_t
from waymesh_router.runtime.transport.connection_io cimport ConnectionIO
from waymesh_router.runtime.transport.tls_connection_io cimport TlsConnectionIO

cdef class TlsThreads:
    cdef readonly object loop
    cdef readonly list threads
    cdef readonly Py_ssize_t most
    cdef bint watched
    cpdef move(self, MovingTlsIO io)

cdef class TlsThread:
    cdef intptr_t handle
    cdef readonly dict moved
    cdef object loop
    cpdef stop(self)

cdef class MovingTlsIO(TlsConnectionIO):
    cdef TlsThreads threads
    cdef TlsThread thread
    cdef intptr_t lent
    cdef bytes early
    cdef int busy
    cdef long long octets
    cdef long long octets_before
    cpdef give_back(self)
    cdef consider(self)
    cdef Py_ssize_t read_early(self, Py_ssize_t start) except -2
    cdef bint go(self, TlsThread thread) except -1
    cdef error_of(self, intptr_t lent)
    cdef come_back(self)
    cdef ready(self)
    cdef look(self)
    cdef bint has_input(self) except -1

cdef bytes left_of(intptr_t lent, int which)
