cimport cython

@cython.final
cdef class TransferFields:
    cdef public Py_ssize_t at
    cdef public long long handle
    cdef public long long did
    cdef public Py_ssize_t tag_bytes
    cdef public long long form
    cdef public bint settled
    cdef public bint more
    cdef public bint resume
    cdef public bint aborted
    cdef public bint transactional
    cpdef Py_ssize_t read(self, const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -1
    cdef read_rare(self, const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end, Py_ssize_t n)
    cdef Py_ssize_t read_tag(self, const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -1

cdef TransferFields FIELDS
cdef long long number(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -64
