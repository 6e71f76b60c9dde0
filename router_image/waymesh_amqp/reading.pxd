from waymesh_amqp.wire cimport Octets

cdef int MAX_DESCRIPTOR_DEPTH

cdef object truncated(str what)
cdef Py_ssize_t skip(Octets b, Py_ssize_t p, Py_ssize_t end, int depth=*) except -1
cdef long long read_uint(Octets b, Py_ssize_t p, Py_ssize_t end) except -2
cdef Py_ssize_t list_count(Octets b, Py_ssize_t p, Py_ssize_t end) except -1
cdef Py_ssize_t list_body(Octets b, Py_ssize_t p) except -1
cdef long long number(Octets b, Py_ssize_t p, Py_ssize_t end) except -64
cdef int strict_flag(Octets b, Py_ssize_t p, Py_ssize_t end) except -1
cdef int check_end(Py_ssize_t p, Py_ssize_t end) except -1
