from waymesh_amqp.wire cimport WritableOctets

cdef class OutputBuffer:
    cdef object mem
    cdef WritableOctets out
    cdef readonly Py_ssize_t off
    cdef readonly Py_ssize_t end
    cdef readonly Py_ssize_t cap
    cdef public int express
    cdef Py_ssize_t edge
    cdef Py_ssize_t fixed
    cdef allocate(self, Py_ssize_t cap)
    cdef reserve(self, Py_ssize_t n)
    cpdef put(self, bytes data)
    cpdef pending(self)
    cdef consume(self, Py_ssize_t n)
    cpdef trim(self)
    cpdef offered(self, Py_ssize_t n)
    cdef Py_ssize_t border(self) except -2
    cdef move_express_first(self)
