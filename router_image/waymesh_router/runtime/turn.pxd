from waymesh_router.runtime.transport.receive_buffer cimport ReceiveBuffer

cdef class Turn:
    cdef public object router
    cdef public object stopping
    cdef dict _connections
    cdef ReceiveBuffer _buffer
    cdef object _failed
    cpdef begin(self, double now)
    cpdef double end(self, double now) except? -1
