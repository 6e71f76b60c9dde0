cimport cython

from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.counters cimport Counters
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.sections cimport Sections
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
    cdef public long long until_next
    cdef public Sample current
    cdef object _context
    cdef Counters _counters
    cdef Sections _sections
    cdef object _pace
    cdef object _clock
    cdef object _ended
    cdef double _probability
    cdef long long _taken
    cdef long long _last_sid
    cdef long long _seen
    cdef double _seen_at

    cpdef start(self, pace, clock, ended)
    cpdef stop(self)
    cdef _draw(self)
    cpdef tick(self, double now)
    cdef _limit_burst(self)
    cdef Annotations take(self, RouterLink link, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef follow(self, RouterLink link, Address address, Annotations annotations, IncomingTransfer transfer)
    cdef went_out(self, Sample sample, RouterLink out)
    cdef frame_handled(self, RouterLink link)
    cdef end_of(self, Delivery delivery, str outcome)
    cdef end(self, Sample sample, str outcome)
    cdef long long _now_us(self)
