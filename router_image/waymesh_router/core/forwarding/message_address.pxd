cimport cython
from waymesh_amqp.transfer cimport IncomingTransfer
from waymesh_router.core.addresses.table cimport AddressTable
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.section_order cimport SectionOrder
from waymesh_router.core.forwarding.sections cimport Sections
from waymesh_router.core.model cimport Address, RouterConnection, RouterLink

@cython.final
cdef class MessageAddress:
    cdef str router_id
    cdef str stamp
    cdef Sections sections
    cdef AddressTable addresses
    cdef object relays
    cdef readonly dict cache
    cdef Annotations plain_annotations
    cdef Address incomplete
    cdef Address unreadable
    cdef Address forbidden
    cdef Address unavailable
    cdef Address denied
    cdef Address outside
    cdef Address over_link_limit
    cdef str long_to
    cdef Annotations annotations_of(self, RouterLink lk, IncomingTransfer transfer)
    cdef Address address_of(self, RouterLink lk, Annotations annotations, IncomingTransfer transfer)
    cdef bint denies(self, RouterLink lk, IncomingTransfer transfer) except -1
    cdef bint forbids(self, RouterLink lk, str text) except -1
    cdef Address checking_agent(self, RouterLink lk)
    cdef str space_address(self, RouterLink lk, str text)
    cdef Annotations annotations_in_space(self, RouterLink lk, Annotations annotations)
    cdef Address address_by_to(self, RouterLink lk, Annotations annotations, IncomingTransfer transfer, Py_ssize_t at)
