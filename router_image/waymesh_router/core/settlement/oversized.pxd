cimport cython
from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.model cimport Branch, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.interruptions cimport Interruptions

cpdef on_oversized(Interruptions parts, RouterLink lk, IncomingTransfer transfer)
cdef refuse_oversized(Interruptions parts, RouterLink lk, IncomingTransfer transfer, bytes state)
cdef bint has_outcome(RouterLink lk) except -1
cdef outgrown(Interruptions parts, RouterLink lk, IncomingTransfer transfer)
cdef outgrown_copy(Interruptions parts, Branch branch)
