cdef class ReceiveBuffer:
    cdef public list ready
    cdef readonly object view
    cdef unsigned char[::1] octets
    cdef readonly Py_ssize_t limit
    cpdef resize(self, Py_ssize_t size)
    cpdef make_room(self, Py_ssize_t kept)

cdef Py_ssize_t KEPT_APART
cpdef Py_ssize_t read_once(int fd, ReceiveBuffer buffer, Py_ssize_t start, Py_ssize_t most) except? -2
cdef Py_ssize_t failure(Py_ssize_t to_wait) except? -2
