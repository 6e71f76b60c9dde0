cimport cython
cdef class Delivery
from waymesh_amqp.link cimport Link

cdef Delivery new_delivery()

@cython.final
cdef class Delivery:
    cdef public Link link
    cdef public Link out
    cdef public object group
    cdef public object target
    cdef public object sample
    cdef public bytes state
    cdef public unsigned int did
    cdef public unsigned int oid
    cdef public double at
    cdef public bint sent

@cython.final
cdef class DeliveryRing:
    cdef readonly bint outgoing
    cdef unsigned int mask
    cdef list slots
    cdef readonly Py_ssize_t count
    cdef dict overflow
    cdef dict by_link
    cpdef bint put(self, Delivery d) except -1
    cdef grow(self)
    cdef move_to_overflow(self, unsigned int slot)
    cpdef Delivery find(self, unsigned int i)
    cdef Delivery take(self, unsigned int i)
    cpdef int drop(self, Delivery d) except -1
    cpdef list live(self)
    cdef list span(self, unsigned int first, long long count)
    cpdef list of(self, link)
