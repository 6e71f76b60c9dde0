cdef int TRUNCATED, ENDED, FOUND
cdef class Sections:
    cdef public Py_ssize_t head
    cdef public Py_ssize_t rest
    cdef public Py_ssize_t header_at
    cpdef int scan(self, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef int priority(self, const unsigned char[::1] b, Py_ssize_t end) except -1
    cpdef Py_ssize_t find_to(self, const unsigned char[::1] b, Py_ssize_t end) except -3
cdef int section_code(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -2
cdef Py_ssize_t value_at(const unsigned char[::1] b, Py_ssize_t p) except -1
