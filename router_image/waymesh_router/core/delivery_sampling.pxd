cimport cython

from waymesh_amqp.delivery cimport Delivery
from waymesh_router.core.annotations cimport Annotations
from waymesh_router.core.model cimport Address, RouterLink

@cython.final
cdef class Sample:
    cdef public RouterLink link
    cdef public Address address
    cdef public Annotations annotations
    cdef public long long began_us
    cdef public long long sent_us
    cdef public bint here
    cdef public bint presettled
    cdef public int priority
    cdef public Py_ssize_t size
    cdef public bint streaming
    cdef public list outs
    cdef public bint waits
    cdef public str outcome

@cython.final
cdef class DeliverySampling:
    cdef object _core
    cdef object _pace
    cdef object _clock
    cdef object _ended
    cdef double _probability
    cdef long long _taken
    cdef long long _last_sid
    cdef long long _seen
    cdef double _seen_at

    cpdef stop(self)
    cdef _draw(self)
    cpdef tick(self, double now)
    cdef _hold_back(self)
    cpdef Annotations take(self, RouterLink link, Address address, Annotations annotations, bint more, Py_ssize_t size)
    cpdef follow(self, RouterLink link, Address address, Annotations annotations, bint more, Py_ssize_t size)
    cpdef went(self, Sample sample, RouterLink out)
    cpdef begun(self, RouterLink link)
    cpdef end_of(self, Delivery delivery, str outcome)
    cpdef end(self, Sample sample, str outcome)
    cdef long long _now_us(self)
