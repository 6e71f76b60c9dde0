cdef class OutputBuffer:
    cdef object mem
    cdef unsigned char[::1] out
    cdef readonly Py_ssize_t off
    cdef readonly Py_ssize_t end
    cdef readonly Py_ssize_t cap
    cdef allocate(self, Py_ssize_t cap)
    cdef reserve(self, Py_ssize_t n)
    cpdef put(self, bytes data)
    cpdef pending(self)
    cdef consume(self, Py_ssize_t n)
    cpdef trim(self)
