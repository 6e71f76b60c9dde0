cimport cython
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.delivery cimport Delivery
from waymesh_router.core.forwarding.speed cimport Speed
from waymesh_router.core.forwarding.window cimport Window
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.pending_queue cimport PendingQueue
from waymesh_router.core.model cimport Address, Queued, RouterLink, Target

@cython.final
cdef class Spread:
    cdef public double now
    cdef public dict freed
    cdef public dict began
    cdef object _watched
    cdef object _looks
    cpdef measure_link(self, RouterLink out)
    cpdef measure_target(self, Target target)
    cdef sent_to_link(self, Delivery d, RouterLink out)
    cdef sent_to_target(self, Delivery d, Target target)
    cdef link_settled(self, Delivery d, RouterLink out, bint done)
    cdef learn_time(self, Delivery d, RouterLink out)
    cdef target_settled(self, Delivery d, Target target, bint done)
    cdef learn(self, Address address, Speed speed, Window window)
    cpdef hold(self, RouterLink out)
    cpdef release(self, Address address)
    cdef watch(self, Address address)
    cpdef tick(self, double now)
    cdef look(self, Address address, double now)

cpdef bint is_spread(Address address) except -1
cdef bint is_told(Address address) except -1
cpdef bint is_spread_here(Address address) except -1
cdef bint spread_over_several(Address address, Connection barred) except -1
cdef bint has_announced_window(Target target, Annotations annotations, bint settled) except -1
cdef bint has_room(RouterLink out) except -1
cpdef bint is_brief(RouterLink out) except -1
cdef bint holds(RouterLink out) except -1
cpdef int concurrency_of(RouterLink out) except -1
cdef bint is_full(Target target) except -1
cdef bint windows_hold(Address address) except -1
cdef bint limited(Address address, bint settled, Annotations annotations) except -1
cdef bint overtakes(Address address, bint settled, Annotations annotations) except -1
cdef bint passes(Address address, Queued q) except -1
cdef bint waits_for_consumers(Address address, Queued q) except -1
cpdef list consumers_of(Address address)
cdef int await_neighbours(Address address) except -1
cdef bint is_awaited(Address address, PendingQueue pending) except -1
